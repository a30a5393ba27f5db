"""What calibration adds to the time of training, on the tasks of the study of error bars.

Both models are trained with the study's options on the same rows, one after the other on one thread of the
same machine; validation rows join the posterior at the end of both, as in the study. Yaw rate has a network
of 512 units, which takes hours on a CPU, so tasks can be named.

    python benchmarks/calibration.py --tasks car-speed/regression gef-power/regression
"""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path

import pandas as pd
import torch

from seqgp.estimator import SequenceGP
from seqgp.experiments import calibration
from seqgp.experiments.calibration_report import FIRST, PROPOSED, TASKS

ALL = tuple("/".join(task) for task in TASKS)


def seconds(task: str, model: str, seed: int, device: str) -> float:
    """Of one training, or of one for each test part of a recording that has several."""
    dataset, mode = task.split("/")
    options = calibration.recipe(dataset, model, mode, quick=False)
    return sum(
        calibration.train_on(
            SequenceGP(**options, random_state=seed, device=device, progress=False),
            train,
            validation,
        )
        for train, validation, _ in calibration.parts(dataset, mode, model)
    )


def main() -> None:
    """Run, print, and write the table; tasks that were not measured now stay as they were."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=ALL, choices=ALL, metavar="DATASET/MODE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("results/calibration"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "cost.csv"
    name = "CPU, 1 thread" if options.device == "cpu" else torch.cuda.get_device_name()
    for task in options.tasks:
        first, proposed = (
            seconds(task, model, options.seed, options.device) for model in (FIRST, PROPOSED)
        )
        row = {
            "task": task,
            "seed": options.seed,
            "device": name,
            "first_s": first,
            "proposed_s": proposed,
            "ratio": proposed / first,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "command": f"python {' '.join(sys.argv)}",
        }
        print(
            f"{task}: {first:.0f} s, calibrated {proposed:.0f} s, ratio {row['ratio']:.3f}",
            flush=True,
        )
        table = pd.DataFrame([row])
        if path.exists():
            before = pd.read_csv(path)
            table = pd.concat([before[before.task != task], table])
        table = table.sort_values("task", key=lambda names: names.map(ALL.index))
        table.to_csv(path, index=False, float_format="%.4g")
        path.with_suffix(".md").write_text(markdown(table), encoding="utf-8")


def markdown(table: pd.DataFrame) -> str:
    """The table for people."""
    lines = [
        "# What calibration costs",
        "",
        f"Seconds of training with the study's options, {FIRST} ({PROPOSED} without calibration) and "
        f"{PROPOSED} one after the other on the same machine, one seed.",
        "",
        f"| task | device | {FIRST}, s | {PROPOSED}, s | ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {r.task.replace('/', ', ')} | {r.device} | {r.first_s:.0f} | {r.proposed_s:.0f} "
        f"| {r.ratio:.2f} |"
        for r in table.itertuples()
    ]
    lines += ["", *(f"`{command}`" for command in table.command.unique())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
