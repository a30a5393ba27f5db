"""Grid inference measured: against GPyTorch's KISS-GP, in n, in memory, and per prediction.

    PYTHONPATH=src python benchmarks/grid.py --out paper/results/grid                # all parts, CPU
    PYTHONPATH=src python benchmarks/grid.py --device cuda --out paper/results/grid-cuda

Part 1: one NLML with its gradients in θ and in each latent point, n = 100,000, d = 2, 100 grid points
per dimension, RBF, next to GPyTorch on the same points: its defaults, and tolerances that bring its
error under 1e-3 nats per point. Part 2: statistics of n = 1,000,000 rows, their time and memory, and
what an evaluation costs after them. Part 3: prediction per point as n and the grid grow, next to an
LSTM. Each measurement runs in a process of its own, one after the other.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import random
import resource
import statistics as stats
import subprocess
import sys
import time
import types
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gpytorch
import matplotlib
import pandas as pd
import torch

matplotlib.use("Agg")
import matplotlib.pyplot as plt

try:
    import seqgp  # noqa: F401
except ImportError:  # what the estimator needs is not installed: the grid needs torch and gpytorch
    package = types.ModuleType("seqgp")
    package.__path__ = [str(Path(__file__).resolve().parents[1] / "src" / "seqgp")]
    sys.modules["seqgp"] = package
from seqgp.inference.grid import Grid
from seqgp.kernels import build_kernel
from seqgp.likelihoods import Gaussian

GPYTORCH: dict[str, dict[str, float]] = {
    "defaults": {},
    "tight": {"cg_tolerance": 0.01, "max_cg_iterations": 5000, "num_trace_samples": 50,
              "max_lanczos_quadrature_iterations": 100},
    # Only where "tight" is still off by more than 1e-3 nats per point.
    "tighter": {"cg_tolerance": 0.001, "max_cg_iterations": 20000, "num_trace_samples": 200,
                "max_lanczos_quadrature_iterations": 200},
}  # fmt: skip

REACHES = {"all": "θ and H gradients", "θ": "θ gradients only", "none": "no gradients"}


def main() -> None:
    """Run the parts asked for, or, as a child, one measurement."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("paper/results/grid"))
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--n", type=int, default=100_000, help="rows of part 1")
    parser.add_argument("--large", type=int, default=1_000_000, help="most rows of parts 2 and 3")
    parser.add_argument("--gpytorch-n", type=int, help="rows of part 1 for GPyTorch (else --n)")
    parser.add_argument("--gpytorch-timeout", type=float, default=3600.0, help="seconds")
    parser.add_argument("--lengthscale", type=float, default=0.5)
    parser.add_argument("--noise", type=float, default=0.1, help="σ², of the model and the targets")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--memory", type=float, default=0.0, help="GiB a CPU measurement may take")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.worker:
        if args.device == "cpu" and args.memory:  # fail alone, rather than take the machine along
            resource.setrlimit(resource.RLIMIT_AS, (int(args.memory * 2**30),) * 2)
        name, *rest = args.worker.split(":")
        print(json.dumps(WORKERS[name](args, *rest)))
        return
    records: list[dict[str, Any]] = []
    for part in args.parts:
        records += {1: part_1, 2: part_2, 3: part_3}[part](args)
    write(args, records)


def run(
    args: argparse.Namespace, worker: str, n: int | None = None, timeout: float = 3600.0
) -> Any:
    """One measurement in a process of its own; None when it took longer than ``timeout``."""
    command = [
        sys.executable, __file__, "--worker", worker, "--device", args.device,
        "--threads", str(args.threads), "--n", str(n or args.n), "--large", str(args.large),
        "--repeats", str(args.repeats), "--memory", str(args.memory),
        "--lengthscale", str(args.lengthscale), "--noise", str(args.noise),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode < 0:
        return {"failed": "killed: out of memory"}
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def data(
    n: int, args: argparse.Namespace, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    """Latent points as a trained head leaves them, inside the box and not even, and targets."""
    generator = torch.Generator().manual_seed(0)
    H = torch.tanh(0.8 * torch.randn(n, 2, generator=generator, dtype=dtype))
    y = torch.sin(4.0 * H[:, :1]) * torch.cos(3.0 * H[:, 1:])
    y = y + args.noise**0.5 * torch.randn(n, 1, generator=generator, dtype=dtype)
    return H.to(args.device), y.to(args.device)


def model(args: argparse.Namespace) -> tuple[gpytorch.kernels.Kernel, Gaussian]:
    """The kernel and the likelihood of all parts."""
    kernel = build_kernel("rbf", 2).to(args.device)
    kernel.base_kernel.lengthscale = args.lengthscale
    return kernel, Gaussian(args.noise).to(args.device)


def clock(call: Callable[[], Any], device: str) -> float:
    """Seconds of a call, the device's queue empty before and after."""
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start


# Part 1


def ours(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds from latent points to the NLML and its gradients, statistics included."""
    H, y = data(args.n, args)
    kernel, likelihood = model(args)
    inference = Grid(100)
    found: dict[str, float] = {}

    def once() -> None:
        points = H.detach().requires_grad_()
        post = inference.posterior(kernel, likelihood, inference.statistics(points, y))
        post.nlml.backward()
        assert points.grad is not None
        found["nlml"] = float(post.nlml.detach())
        found["rank"] = post.diagnostics.rank

    def value() -> None:
        with torch.no_grad():
            inference.posterior(kernel, likelihood, inference.statistics(H, y))

    # A GPU's clock and libraries take some calls to settle; GPyTorch's own first call is seconds long.
    for _ in range(1 if args.device == "cpu" else 20):
        once()
    seconds = [clock(once, args.device) for _ in range(args.repeats)]
    alone = [clock(value, args.device) for _ in range(args.repeats)]
    return {"seconds": stats.median(seconds), "value": stats.median(alone), **found}


class KissGP(gpytorch.models.ExactGP):
    """GPyTorch's own, on the same grid."""

    def __init__(self, H: torch.Tensor, y: torch.Tensor, likelihood: Any) -> None:
        super().__init__(H, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2))
        self.covar_module = gpytorch.kernels.GridInterpolationKernel(
            base, grid_size=100, num_dims=2, grid_bounds=[(-1.0, 1.0)] * 2
        )

    def forward(self, h: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(h), self.covar_module(h))


def theirs(args: argparse.Namespace, setting: str, reach: str) -> dict[str, Any]:
    """The same by GPyTorch, under one of its settings; ``reach``: "all" gradients, "θ" or "none"."""
    H, y = data(args.n, args)
    points = H.detach().requires_grad_(reach == "all")
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double().to(args.device)
    kiss = KissGP(points, y[:, 0], likelihood).double().to(args.device)
    step = 2.0 / 97.0
    axis = -1.0 - step + step * torch.arange(100, dtype=torch.float64, device=args.device)
    kiss.covar_module.update_grid([axis, axis])
    kiss.covar_module.base_kernel.outputscale = 1.0
    kiss.covar_module.base_kernel.base_kernel.lengthscale = args.lengthscale
    likelihood.noise = args.noise
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, kiss)
    kiss.train(), likelihood.train()
    torch.manual_seed(0)
    found: dict[str, float] = {}

    def once() -> None:
        value = -objective(kiss(points), y[:, 0]) * len(points)
        if reach != "none":
            value.backward()
        found["nlml"] = float(value.detach())

    with contexts(GPYTORCH[setting]), torch.set_grad_enabled(reach != "none"):
        if args.device != "cpu":  # on the CPU a warm-up would cost minutes and change nothing
            once()
        seconds = [clock(once, args.device) for _ in range(3 if args.device != "cpu" else 1)]
    return {"seconds": stats.median(seconds), **found}


def contexts(settings: dict[str, float]) -> ExitStack:
    """GPyTorch's process-wide switches, set."""
    stack = ExitStack()
    for name, value in settings.items():
        stack.enter_context(getattr(gpytorch.settings, name)(value))
    return stack


def part_1(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The same NLML and gradients by seqgp and by GPyTorch."""
    mine = run(args, "ours")
    report(1, "seqgp, value and all gradients", f"{mine['seconds']:.4f} s", f"rank {mine['rank']}")
    records = [
        {"part": 1, "what": "seqgp: NLML, θ and H gradients", "n": args.n, "value": mine["seconds"],
         "unit": "s", "note": f"rank {mine['rank']}"},
        {"part": 1, "what": "seqgp: NLML alone", "n": args.n, "value": mine["value"], "unit": "s",
         "note": ""},
    ]  # fmt: skip
    n = args.gpytorch_n or args.n
    reference = mine if n == args.n else run(args, "ours", n)
    off = float("inf")
    for setting in GPYTORCH:
        if setting == "tighter" and off < 1e-3:
            continue
        notes: list[str] = []
        for reach in ("all", "θ", "none"):  # each less work than the one before: a smaller ratio
            what = f"GPyTorch {setting}: NLML, {REACHES[reach]}"
            found = run(args, f"theirs:{setting}:{reach}", n, args.gpytorch_timeout)
            if found is None or "failed" not in found:
                break
            notes.append(f"{REACHES[reach]} failed: {found['failed'][-90:]}")
        if found is None:
            found = {"seconds": args.gpytorch_timeout}
            notes.append("stopped at the time limit")
        elif "failed" in found:
            found = {"seconds": float("nan")}
        else:
            off = abs(found["nlml"] - reference["nlml"]) / n
            notes.append(f"off by {off:.1e} nats per point")
        note = "; ".join(notes)
        ratio = found["seconds"] / reference["seconds"]
        report(1, what, f"{found['seconds']:.2f} s, {ratio:.0f} times seqgp's", note)
        records += [
            {"part": 1, "what": what, "n": n, "value": found["seconds"], "unit": "s", "note": note},
            {"part": 1, "what": f"ratio to GPyTorch {setting}", "n": n, "value": ratio, "unit": "×",
             "note": note},
        ]  # fmt: skip
    return records


# Part 2


def gather(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds and peak memory above the data of one pass over ``--large`` rows."""
    H, y = data(args.large, args)
    inference = Grid(100)
    inference.statistics(H[:1000], y[:1000])  # loads what is loaded once
    before = reset_peak(args.device)
    first = clock(lambda: inference.statistics(H, y), args.device)
    peak = peak_bytes(args.device) - before
    again = [clock(lambda: inference.statistics(H, y), args.device) for _ in range(3)]
    return {"seconds": stats.median([first, *again]), "peak": peak}


def reset_peak(device: str) -> int:
    """Forget the peak so far; the bytes in use now."""
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    if platform.libc_ver()[0] == "glibc":  # give back what is free, or it would hide what is taken
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")  # forget the high-water mark
    except OSError:
        return peak_bytes(device)
    return peak_bytes(device)


def peak_bytes(device: str) -> int:
    """Most bytes in use since :func:`reset_peak`."""
    if device != "cpu":
        return torch.cuda.max_memory_allocated()
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def evaluate(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of one NLML with its gradient in θ and σ², after the statistics, for two n."""
    kernel, likelihood = model(args)
    inference = Grid(100)
    gathered = {n: inference.statistics(*data(n, args)) for n in (10_000, args.large)}

    def once(n: int) -> None:
        inference.posterior(kernel, likelihood, gathered[n]).nlml.backward()

    return {str(n): s for n, s in interleaved(once, list(gathered), args, 5 * args.repeats).items()}


def interleaved(
    call: Callable[[Any], None], cases: list[Any], args: argparse.Namespace, repeats: int
) -> dict[Any, float]:
    """Median seconds of each case, in turns and in random order: disturbances hit all alike."""
    for case in cases:
        call(case)
    seconds: dict[Any, list[float]] = {case: [] for case in cases}
    for _ in range(repeats):
        for case in random.sample(cases, len(cases)):
            seconds[case].append(clock(lambda case=case: call(case), args.device))
    return {case: stats.median(found) for case, found in seconds.items()}


def part_2(args: argparse.Namespace) -> list[dict[str, Any]]:
    """A million rows: the pass over them, and what is free of them."""
    gathered, evaluated = run(args, "gather"), run(args, "evaluate")
    small, large = evaluated["10000"], evaluated[str(args.large)]
    rows = [
        ("statistics", args.large, gathered["seconds"], "s"),
        ("peak memory above the data", args.large, gathered["peak"] / 1e9, "GB"),
        ("NLML and θ gradient after the statistics", 10_000, small, "s"),
        ("NLML and θ gradient after the statistics", args.large, large, "s"),
        ("ratio of the two", args.large, large / small, "×"),
    ]
    for what, n, value, unit in rows:
        report(2, what, f"{value:.4g} {unit}", f"n = {n:,}")
    return [
        {"part": 2, "what": what, "n": n, "value": value, "unit": unit, "note": ""}
        for what, n, value, unit in rows
    ]


# Part 3

BATCH = {"cpu": 8192, "cuda": 65_536}  # what fills the machine
STEPS = 48


def predict(args: argparse.Namespace) -> dict[str, Any]:
    """Microseconds per point of a prediction for several n and grids, and of an LSTM's forward."""
    kernel, likelihood = model(args)
    posts: dict[str, Any] = {}
    sizes = sorted({10_000, 100_000, args.large})
    with torch.no_grad():
        for n in sizes:
            for size in (100, 200, 400):
                inference = Grid(size)
                post = inference.posterior(kernel, likelihood, inference.statistics(*data(n, args)))
                _ = post.tables
                posts[f"{n}:{size}"] = post
        lstm = torch.nn.LSTM(8, 64, batch_first=True).to(args.device)
        batch = BATCH[args.device]
        x = torch.randn(batch, STEPS, 8, device=args.device)
        h = data(batch, args, torch.float32)[0]

        seconds = interleaved(
            lambda case: posts[case].predict(h), list(posts), args, 9 * args.repeats
        )
        seconds |= interleaved(lambda _: lstm(x), ["lstm"], args, args.repeats)
    return {case: 1e6 * s / batch for case, s in seconds.items()}


def part_3(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Prediction per point."""
    found = run(args, "predict")
    lstm = found.pop("lstm")
    records = []
    for case, microseconds in found.items():
        n, size = case.split(":")
        records.append(
            {"part": 3, "what": f"mean and variance, grid {size}", "n": int(n),
             "value": microseconds, "unit": "µs/point", "note": f"batch {BATCH[args.device]}"}
        )  # fmt: skip
        report(3, f"grid {size}, n = {int(n):,}", f"{microseconds:.3f} µs per point", "")
    spread, share = max(found.values()) / min(found.values()), max(found.values()) / lstm
    report(3, "slowest over fastest", f"{spread:.3f}", "")
    report(3, "LSTM, 64 units, 48 steps", f"{lstm:.2f} µs per point", f"slowest/LSTM = {share:.4f}")
    large = max(int(case.split(":")[0]) for case in found)
    for what, value, unit in (
        ("slowest over fastest", spread, "×"),
        ("LSTM forward, 64 units, 48 steps", lstm, "µs/point"),
        ("slowest over LSTM", share, "×"),
    ):
        records.append(
            {"part": 3, "what": what, "n": large, "value": value, "unit": unit, "note": ""}
        )
    return records


WORKERS: dict[str, Callable[..., dict[str, Any]]] = {
    "ours": ours,
    "theirs": theirs,
    "gather": gather,
    "evaluate": evaluate,
    "predict": predict,
}


# Results


def report(part: int, what: str, value: str, note: str) -> None:
    """One line, at once."""
    print(f"[{part}] {what}: {value}" + (f" ({note})" if note else ""), flush=True)


def device_name(device: str) -> str:
    """What the numbers were measured on."""
    if device != "cpu":
        return torch.cuda.get_device_name()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def write(args: argparse.Namespace, records: list[dict[str, Any]]) -> None:
    """CSV, Markdown and plot."""
    args.out.mkdir(parents=True, exist_ok=True)
    command = "python benchmarks/grid.py " + " ".join(sys.argv[1:])
    setup = {
        "device": device_name(args.device),
        "threads": args.threads,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gpytorch": gpytorch.__version__,
        "command": command.strip(),
    }
    table = pd.DataFrame(records)
    table.assign(**setup).to_csv(args.out / "grid.csv", index=False)
    lines = ["# Grid inference", ""]
    lines += [f"- {name}: `{value}`" for name, value in setup.items()]
    lines += [
        "",
        "| part | what | n | value | unit | note |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {r['part']} | {r['what']} | {r['n']:,} | {r['value']:.4g} | {r['unit']} | {r['note']} |"
        for r in records
    ]
    (args.out / "grid.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    plot(args.out / "grid.png", table)
    print(f"written to {args.out}")


def plot(path: Path, table: pd.DataFrame) -> None:
    """One panel per part."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), constrained_layout=True)
    one = table[(table["part"] == 1) & (table["unit"] == "s")].dropna(subset=["value"])
    labels = [
        f"{w.replace(': ', chr(10))}\nn = {n:,}" for w, n in zip(one["what"], one["n"], strict=True)
    ]
    axes[0].barh(labels, one["value"])
    axes[0].set(xscale="log", xlabel="seconds", title="One NLML with its gradients")
    two = table[(table["part"] == 2) & table["what"].str.startswith("NLML")]
    axes[1].bar([f"n = {n:,}" for n in two["n"]], 1e3 * two["value"])
    axes[1].set(ylabel="milliseconds", title="NLML and θ gradient after the statistics")
    three = table[(table["part"] == 3) & table["what"].str.startswith("mean")]
    for what, group in three.groupby("what"):
        axes[2].plot(group["n"], group["value"], marker="o", label=what.split(", ")[1])
    axes[2].set(xscale="log", xlabel="n", ylabel="µs per point", title="Prediction")
    axes[2].set_ylim(bottom=0)
    if len(three):
        axes[2].legend()
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
