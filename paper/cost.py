"""What calibration adds to the time of training, on the tasks of the calibration study.

Both models are trained with the study's options and seed on the same rows of the same machine, each in a
process of its own with one thread, started together. Tasks can be named. Some take hours without a GPU:
``--epochs`` shortens training, and as the work of calibration after it stays the same, its share grows.

    python -m paper.cost --tasks car-lead/autoregression gef-power/regression
    python -m paper.cost --tasks car-yaw/regression --epochs 3
"""

from __future__ import annotations

import argparse
import platform
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import torch

from paper import calibration
from paper.calibration_report import FIRST, PROPOSED, TASKS
from paper.models import build
from paper.runner import table_lines, write_text

__all__ = ["main"]

ALL = tuple("/".join(task) for task in TASKS)


def seconds(task: str, model: str, seed: int, device: str, epochs: int | None) -> float:
    """Of one training, or of one for each test part of a recording that has several."""
    torch.set_num_threads(1)
    dataset, mode = task.split("/")
    options = calibration.recipe(dataset, model, mode, quick=False)
    if epochs is not None:
        options |= {name: epochs for name in ("epochs", "pretrain_epochs") if name in options}
    return sum(
        calibration.train_on(
            build(model, options, seed, device),
            train,
            validation,
        )
        for train, validation, _ in calibration.study_parts(dataset, mode, model)
    )


def main() -> None:
    """Measure, print, and write the table; rows of tasks that are not measured are kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=ALL, choices=ALL, metavar="DATASET/MODE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--epochs", type=int, help="of training and of pre-training; all if left out"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("paper/results/calibration"))
    options = parser.parse_args()
    path = options.out / "cost.csv"
    name = "CPU, 1 thread" if options.device == "cpu" else torch.cuda.get_device_name()
    for task in options.tasks:
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            trained = [
                pool.submit(seconds, task, model, options.seed, options.device, options.epochs)
                for model in (FIRST, PROPOSED)
            ]
            first, proposed = (one.result() for one in trained)
        row = {
            "task": task,
            "seed": options.seed,
            "device": name,
            "first_s": first,
            "proposed_s": proposed,
            "ratio": proposed / first,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "command": f"python -m paper.cost --tasks {task} --seed {options.seed}"
            + (f" --epochs {options.epochs}" if options.epochs is not None else ""),
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
        write_text(path, table.to_csv(index=False, float_format="%.4g"))
        write_text(path.with_suffix(".md"), markdown(table))


def markdown(table: pd.DataFrame) -> str:
    """The table for people."""
    lines = [
        "# What calibration costs",
        "",
        f"Seconds of training with the study's options: {FIRST}, which is {PROPOSED} without calibration, "
        f"and {PROPOSED}, started together on the same machine, one seed. Where the command has a number "
        "of epochs, training was shortened, and the share of calibration is larger than in a whole one.",
        "",
    ]
    rows = [
        [
            str(row["task"]).replace("/", ", "),
            row["device"],
            f"{row['first_s']:.4g}",
            f"{row['proposed_s']:.4g}",
            f"{row['ratio']:.2f}",
        ]
        for row in table.to_dict("records")
    ]
    lines += table_lines(["task", "device", f"{FIRST}, s", f"{PROPOSED}, s", "ratio"], rows)
    lines += ["", *(f"- `{command}`" for command in table.command)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
