"""The real command in a process of its own, on a machine whose GPUs a file states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
GIB = 2**30
MIB = 2**20
SCRIPT = "from capienza.cli.main import run; run()"
CARD = """
capienza: 1
name: assistant
model: {path: MODEL, revision: as-published}
task: inference
weights: {format: bf16}
engine: {name: vllm, version: "0.11.2"}
tokens: {short: 512, usual: 1024, required: {prompt: 2048, output: 512}}
concurrency: 2
placement: {gpus: 1}
margin: {amount: 2 GiB, reason: spread of three runs}
"""
SERVER = '''
"""Behaves as a server on the fake GPU: takes memory phase by phase, and says so as vLLM does."""
import json, os, sys, time
state = os.environ["FAKE_NVML"]

def use(gpu, gib, **more):
    lines = dict(line.split("=", 1) for line in open(state).read().splitlines())
    lines[f"gpu{gpu}.used"] = str(int(gib * 2**30))
    lines[f"gpu{gpu}.procs"] = f"{os.getpid()}:{int((gib - 0.5) * 2**30)}" + more.get("also", "")
    with open(state + ".new", "w") as file:
        file.write("".join(f"{key}={value}\\\\n" for key, value in lines.items()))
    os.replace(state + ".new", state)
    time.sleep(0.35)

def say(text):
    print(text, file=sys.stderr, flush=True)

def usage(prompt=2048, output=512, count=2, **more):
    with open(os.environ["CAPIENZA_RUN"] + "/usage.jsonl", "a") as file:
        for number in range(count):
            row = {"prompt_tokens": prompt, "completion_tokens": output, "start": 1.0, "end": 2.0,
                   "truncated": False, "dropped": 0, **more}
            file.write(json.dumps(row) + "\\\\n")
'''.replace("\\\\n", "\\n")


class Ended(NamedTuple):
    """How a measured command ended."""

    code: int
    out: bytes
    err: bytes
    run: dict[str, Any]
    record: dict[str, Any]
    folder: Path

    def codes(self) -> set[str]:
        """The codes of what was found."""
        return {finding["code"] for finding in self.run["findings"]}


class Machine:
    """A machine with the GPUs of a state file."""

    def __init__(self, folder: Path, nvml: Path | None) -> None:
        self.folder = folder
        self.state = folder / "nvml.state"
        self.variables = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG"))}
        self.variables["PYTHONPATH"] = str(HERE.parents[1] / "src")
        if nvml is not None:
            self.variables |= {"LD_LIBRARY_PATH": str(nvml), "FAKE_NVML": str(self.state)}
        self.card(CARD)

    def card(self, text: str) -> None:
        """Write the card."""
        model = HERE.parents[1] / "examples" / "configs" / "meta-llama--Llama-3.1-8B"
        (self.folder / "card.yaml").write_text(text.replace("MODEL", str(model)))

    def gpus(self, *gpus: dict[str, Any], **more: Any) -> None:
        """State the GPUs: name, total and used in bytes..."""
        lines = {"driver": "550.54.15", "cuda": "12040", "count": len(gpus), **more}
        for number, gpu in enumerate(gpus):
            whole = {"name": "NVIDIA L40S", "uuid": f"GPU-0000-{number}", "total": 46068 * MIB, "used": 0, **gpu}
            lines |= {f"gpu{number}.{key}": value for key, value in whole.items()}
        self.state.write_text("".join(f"{key.replace('__', '.')}={value}\n" for key, value in lines.items()))

    def script(self, text: str, name: str = "child.py") -> list[str]:
        """A Python script as a command, with the server's parts before it."""
        (self.folder / name).write_text(SERVER + text)
        return [sys.executable, name]

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start `capienza measure card.yaml ...`."""
        command = [sys.executable, "-c", SCRIPT, "measure", "card.yaml", *arguments]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.variables, **options}
        return subprocess.Popen(command, cwd=self.folder, **options)

    def measure(self, *arguments: str, **options: Any) -> Ended:
        """The same to its end."""
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=120)
        return self.ended(process.returncode, out, err)

    def ended(self, code: int, out: bytes = b"", err: bytes = b"") -> Ended:
        """What the latest run left behind."""
        folders = sorted((self.folder / "runs").glob("*"), key=lambda path: path.stat().st_mtime_ns)
        folder = folders[-1] if folders else self.folder
        run = folder / "run.json"
        records = sorted((self.folder / "evidence").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        documents = [json.loads(path.read_text()) for path in records]
        measured = [one for one in documents if one["kind"] == "measurement"]
        return Ended(
            code, out, err, json.loads(run.read_text()) if run.exists() else {}, (measured or [{}])[-1], folder
        )
