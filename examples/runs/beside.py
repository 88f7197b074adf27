"""Predicted beside observed, for the two small runs of this folder: `python examples/runs/beside.py training|llamacpp`.

The prediction is made before the run, from the card and the model's files; then the run is made, and each figure is
compared with one of the same counter. `--resident` also shows what the kernel counted for the whole process: code,
libraries and mapped files are in it, so nothing is compared with it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from capienza.api import size, trace
from capienza.measure.merge import Peak, merged
from capienza.report.blocks import Heading, Paragraph, Table
from capienza.report.plain import plain_text
from capienza.units import MIB

HERE = Path(__file__).parent
GGUF = HERE.parents[1] / ".demo" / "tiny-llama.gguf"
COUNTER = "cpu_allocated"
LIMIT_S = 300
BUFFER = re.compile(r"(\w+) +(model|KV|compute|output) buffer size = +([0-9.]+) MiB")


def run(folder: Path, program: str, *arguments: str) -> str:
    """Run a program of this folder with its readings in `folder`; its standard error."""
    command = [sys.executable, str(HERE / program), *arguments]
    environment = os.environ | {"CAPIENZA_RUN": str(folder), "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if ended.returncode:
        sys.exit(f"{program} ended with {ended.returncode}\n{ended.stderr[-2000:]}")
    return ended.stderr


def training(folder: Path, is_resident: bool) -> None:
    """Each phase of the small training, on the counter of PyTorch's allocator in main memory."""
    traced = trace(HERE / "training.yaml", "cpu").prediction
    expected = {phase.phase: phase.requested_bytes for phase in traced.gpus[0].phases}
    run(folder, "training.py")
    peaks = {(peak.phase, peak.counter): peak for peak in merged(folder).peaks}
    names = tuple(dict.fromkeys(phase for phase, _ in peaks))
    rows = [
        (*beside(name, expected[name], peaks[name, COUNTER].peak_bytes), *resident(peaks, name, is_resident))
        for name in names
    ]
    say(
        "A small training, predicted beside observed",
        "Predicted: the card's program, traced on fake tensors by `capienza trace examples/runs/training.yaml --gpu "
        f"cpu`. Observed: {peaks[names[0], COUNTER].source}, peak of each phase.",
        ("phase", "predicted MiB", "observed MiB", "difference", *(["resident MiB"] if is_resident else [])),
        rows,
    )


def llamacpp(folder: Path, is_resident: bool) -> None:
    """Each buffer of llama.cpp, as it prints them."""
    GGUF.parent.mkdir(exist_ok=True)
    subprocess.run([sys.executable, str(HERE / "tiny_gguf.py"), str(GGUF)], check=True)
    answer = size(HERE / "llamacpp.yaml").answer
    expected = {(b.kind, b.device): b.amount.expected for b in answer.buffers.buffers if b.amount.expected}
    log = run(folder, "llamacpp.py", str(GGUF))
    found: dict[tuple[str, str], float] = {}
    for device, kind, amount in BUFFER.findall(log):
        found[f"{kind.lower()}_buffer", device] = float(amount)
    rows = []
    for kind, device in dict.fromkeys([*expected, *found]):
        guess, seen = expected.get((kind, device)), found.get((kind, device))
        told = ("unknown" if guess is None else mib(guess), "not printed" if seen is None else f"{seen:.2f}")
        is_known = guess is not None and seen is not None
        rows.append((kind, device, *told, share(guess / MIB, seen) if is_known else ""))
    say(
        "A GGUF file on llama.cpp, predicted beside observed",
        "Observed: the buffers that llama.cpp itself prints, to a hundredth of a MiB.",
        ("buffer", "device", "predicted MiB", "observed MiB", "difference"),
        rows,
    )
    if is_resident:
        peaks = {(peak.phase, peak.counter): peak for peak in merged(folder).peaks}
        said = ", ".join(f"{phase} {resident(peaks, phase, True)[0]} MiB" for phase, _ in peaks)
        print(f"\nResident, of the whole process and its libraries: {said}.")


def mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:.2f}"


def share(guess: float, seen: float) -> str:
    """Observed against predicted; what lies within the last printed digit is no difference."""
    return f"{0.0 if abs(seen - guess) < 0.01 else 100 * (seen - guess) / guess:+.1f} %"


def beside(phase: str, guess_bytes: int, observed_bytes: int) -> tuple[str, ...]:
    """One phase: predicted, observed, and what lies between them."""
    return phase, mib(guess_bytes), mib(observed_bytes), share(guess_bytes / MIB, observed_bytes / MIB)


def resident(peaks: dict[tuple[str, str], Peak], phase: str, is_resident: bool) -> tuple[str, ...]:
    """The kernel's own counter of that phase, where it is asked for and there."""
    if not is_resident:
        return ()
    return (next((mib(peak.peak_bytes) for key, peak in peaks.items() if key == (phase, "resident")), "unknown"),)


def say(title: str, text: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    numeric = tuple(index for index, column in enumerate(columns) if column not in ("phase", "buffer", "device"))
    table = Table(columns=columns, rows=tuple(rows), numeric=numeric)
    print(plain_text((Heading(title, 1), Paragraph(text), table)), end="")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", choices=["training", "llamacpp"])
    parser.add_argument("--resident", action="store_true", help="also what the kernel counted for the process")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"training": training, "llamacpp": llamacpp}[options.run](Path(folder), options.resident)


if __name__ == "__main__":
    main()
