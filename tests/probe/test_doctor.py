"""`doctor` against programs that stand in for the driver's: two GPUs, MIG, old, broken and hanging ones."""

from __future__ import annotations

import json
import os
import platform
import stat
import subprocess
import sys
from importlib import metadata

import pytest

from capienza.canon import digest_bytes
from capienza.evidence.claims import find
from capienza.evidence.folder import read_folder
from capienza.probe import ask as asking
from capienza.probe.ask import ask
from capienza.probe.machine import PACKAGES, _ram
from capienza.units import GIB, MIB

UUIDS = ("GPU-5e1c7a52-0c0e-4c2b-9d3f-000000000001", "GPU-5e1c7a52-0c0e-4c2b-9d3f-000000000002")
DETAILS = "==============NVSMI LOG==============\nDriver Version    : 550.54.15\nCUDA Version      : 12.4\n"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Put a program of this name on the path, written in Python; nothing else is found there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def write(name, body, mode=0o755):
        path = folder / name
        path.write_text(f"#!{sys.executable}\nimport sys, time, os\narguments = ' '.join(sys.argv[1:])\n{body}\n")
        path.chmod(mode)
        return path

    return write


def rows(*lines, listed="", query="True"):
    """The body of an `nvidia-smi` that prints these lines to a query."""
    return (
        f"if '--query-gpu' in arguments:\n    print({chr(10).join(lines)!r})\n"
        f"elif '-L' in arguments:\n    print({listed!r})\nelse:\n    print({DETAILS!r})"
    )


def card(index, name="NVIDIA GeForce RTX 4090", total="24564", mig="[N/A]", ecc="Disabled", capability="8.9"):
    return f"{index}, {name}, {UUIDS[index % 2]}, 550.54.15, {total}, {mig}, {ecc}, {capability}"


def doctor(capienza, *arguments):
    shown = capienza("doctor", "--json", *arguments)
    assert (shown.code, shown.err) == (0, "")
    return json.loads(shown.out)


def codes(document):
    return [note["code"] for note in document["notes"]]


def test_two_gpus_become_a_record_without_any_name(capienza, fake, tmp_path, monkeypatch):
    monkeypatch.setenv("USER", "somebody")
    fake("nvidia-smi", rows(card(0), card(1)))
    found = doctor(capienza, "--evidence", tmp_path / "ev", "--offer", "o1", "--provider", "p")
    assert found["schema"] == "capienza.doctor/1"
    assert [gpu["candidates"] for gpu in found["gpus"]] == [["rtx4090"], ["rtx4090"]]
    (record,) = read_folder(tmp_path / "ev")
    assert (record.kind, record.method, record.mode, record.producer["class"]) == (
        "measurement", "measure", "automatic", "environment_probe",
    )  # fmt: skip
    scope = record.scope
    assert (scope.gpu, scope.gpus, scope.driver, scope.offer, scope.provider) == ("rtx4090", 2, "550.54.15", "o1", "p")
    assert [(claim.value, claim.unit, claim.gpu_index) for claim in find(record, "gpu_reported_bytes")] == [
        (24564 * MIB, "B", 0),
        (24564 * MIB, "B", 1),
    ]
    stated = {claim.quantity: claim.value for claim in record.claims}
    assert (stated["driver_version"], stated["cuda_max"], stated["compute_capability"]) == ("550.54.15", "12.4", "8.9")
    assert {"cpu_arch", "os", "python_version", "ram_bytes", "disk_bytes"} <= set(stated)
    assert [subject.sha256 for subject in record.subject] == [digest_bytes(uuid.encode()) for uuid in UUIDS]
    text = (tmp_path / "ev" / f"{record.id}.json").read_text()
    assert not any(secret in text for secret in (*UUIDS, "somebody", platform.node()))


def test_packages_are_those_of_this_python_and_are_not_imported():
    script = (
        "import sys\nfrom capienza.api.probing import doctor\n"
        "print(*doctor().environment.machine.packages)\nprint(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    packages, modules = (set(line.split()) for line in run.stdout.splitlines())
    assert packages == {name for name in PACKAGES if _is_installed(name)}
    assert not {"torch", "numpy", "transformers", "bitsandbytes", "pynvml"} & modules


def _is_installed(name):
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:
        return False


@pytest.mark.parametrize(
    "body, code",
    [
        ("print('NVIDIA-SMI has failed because it could not communicate'); sys.exit(9)", "probe.failed"),
        ("print('Insufficient Permissions', file=sys.stderr); sys.exit(4)", "probe.failed"),
        ("print('No devices were found')", "probe.line-not-understood"),
        ("sys.stdout.buffer.write(os.urandom(3000))", "probe.no-gpu"),
        ("print('0, x, y')", "probe.line-not-understood"),
        ("print('{\"a\":' * 5000)", "probe.line-not-understood"),
        ("os.kill(os.getpid(), 11)", "probe.failed"),
        ("while True: print('x' * 10000)", "probe.too-long"),
        ("pass", "probe.no-gpu"),
    ],
)
def test_a_broken_program_is_said_and_never_followed(capienza, fake, body, code):
    fake("nvidia-smi", body)
    found = doctor(capienza)
    assert found["gpus"] == []
    assert code in codes(found)


@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(60)",
        "print('0, RTX 4090', flush=True); time.sleep(60)",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)",
        "import subprocess; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])",
        "sys.stdout.close(); os.close(1); os.close(2); time.sleep(60)",
    ],
)
def test_a_program_that_hangs_is_stopped(capienza, fake, monkeypatch, body):
    monkeypatch.setattr(asking, "SECONDS", 1.0)
    fake("nvidia-smi", body)
    assert "probe.too-slow" in codes(doctor(capienza))


def test_a_program_that_may_not_be_run(capienza, fake):
    path = fake("nvidia-smi", "", mode=stat.S_IRUSR)
    if os.access(path, os.X_OK):
        pytest.skip("this user may run everything")
    assert "probe.denied" in codes(doctor(capienza))


def test_a_file_that_is_no_program(capienza, fake):
    path = fake("nvidia-smi", "")
    path.write_bytes(b"\x7fELF garbage")
    assert "probe.denied" in codes(doctor(capienza))


def test_absence_is_said_plainly(capienza, fake):
    found = doctor(capienza)
    assert codes(found) == ["probe.absent", "probe.absent"]
    assert [note["parameters"]["program"] for note in found["notes"]] == ["nvidia-smi", "rocm-smi"]


def test_in_mig_mode_the_whole_total_is_not_recorded(capienza, fake, tmp_path):
    whole = card(0, name="NVIDIA H100 80GB HBM3", total="81559", mig="Enabled", ecc="Enabled", capability="9.0")
    listed = (
        f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {UUIDS[0]})\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n  MIG 1g.10gb     Device  1: (UUID: MIG-2)\n"
    )
    fake("nvidia-smi", rows(whole, listed=listed))
    found = doctor(capienza, "--evidence", tmp_path / "ev")
    assert "probe.mig-mode" in codes(found)
    assert found["gpus"][0]["instances"] == ["1g.10gb", "1g.10gb"]
    (record,) = read_folder(tmp_path / "ev")
    assert not find(record, "gpu_reported_bytes")
    assert (record.scope.gpu, record.scope.gpus) == ("h100_sxm/1g.10gb", 2)


def test_mig_mode_without_instances(capienza, fake, tmp_path):
    whole = card(0, name="NVIDIA H100 80GB HBM3", total="81559", mig="Enabled")
    fake("nvidia-smi", rows(whole, listed=f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {UUIDS[0]})"))
    assert "probe.mig-empty" in codes(doctor(capienza, "--evidence", tmp_path / "ev"))
    assert read_folder(tmp_path / "ev")[0].scope.gpu is None


def test_an_old_driver_knows_fewer_fields(capienza, fake):
    fake(
        "nvidia-smi",
        "if 'compute_cap' in arguments:\n    print('Field \"compute_cap\" is not a valid field.'); sys.exit(2)\n"
        f"print('0, Tesla T4, {UUIDS[0]}, 440.33.01, 15109')",
    )
    (gpu,) = doctor(capienza)["gpus"]
    assert (gpu["candidates"], gpu["reported_bytes"], gpu["compute_capability"]) == (["t4"], 15109 * MIB, None)


def test_what_the_driver_does_not_say_is_not_known(capienza, fake):
    fake("nvidia-smi", rows("0, Orin (nvgpu), [N/A], [N/A], [Not Supported], [N/A], [N/A], [N/A]"))
    (gpu,) = doctor(capienza)["gpus"]
    assert (gpu["reported_bytes"], gpu["driver_version"], gpu["compute_capability"]) == (None, None, None)


def test_unlike_gpus_leave_the_scope_open(capienza, fake, tmp_path):
    fake("nvidia-smi", rows(card(0), card(1, name="NVIDIA L4", total="23034")))
    assert "probe.mixed-gpus" in codes(doctor(capienza, "--evidence", tmp_path / "ev"))
    (record,) = read_folder(tmp_path / "ev")
    assert (record.scope.gpu, record.scope.gpus) == (None, None)


def test_name_and_total_tell_boards_apart(capienza, fake):
    fake("nvidia-smi", rows(card(0, total="49140"), card(1, name="NVIDIA GeForce RTX 3060", total="12288")))
    first, second = doctor(capienza)["gpus"]
    assert first["candidates"] == ["rtx4090_48mod"]
    assert len(second["candidates"]) == 1


def test_rocm(capienza, fake, tmp_path):
    document = {
        "card0": {
            "Card Series": "AMD Instinct MI300X",
            "GFX Version": "gfx942",
            "VRAM Total Memory (B)": str(196592 * MIB),
            "Unique ID": "0x2150e7d042a1124",
        },
        "system": {"Driver version": "6.12.12"},
    }
    fake("rocm-smi", f"print('WARNING: low power'); print({json.dumps(document)!r})")
    (gpu,) = doctor(capienza, "--evidence", tmp_path / "ev")["gpus"]
    assert (gpu["candidates"], gpu["gfx"], gpu["reported_bytes"]) == (["mi300x"], "gfx942", 196592 * MIB)
    assert read_folder(tmp_path / "ev")[0].scope.driver == "6.12.12"


@pytest.mark.parametrize("body", ["print('[1]')", "print('{')", "print('{\"card0\": 3}')", "print('{\"a\":' * 9000)"])
def test_rocm_garbage(capienza, fake, body):
    fake("rocm-smi", body)
    found = doctor(capienza)
    assert found["gpus"] == []
    assert {"probe.line-not-understood", "probe.no-gpu"} & set(codes(found))


def test_for_people_in_both_languages(capienza, fake):
    fake("nvidia-smi", rows(card(0), card(1)))
    assert "23.99 GiB" in capienza("doctor").out
    assert "Questa macchina" in capienza("doctor", "--lang", "it").out


def test_offer_needs_a_folder(capienza, fake):
    assert capienza("doctor", "--offer", "x").code == 2


def test_a_control_group_limits_the_memory(tmp_path):
    limit = tmp_path / "memory.max"
    limit.write_text(f"{GIB}\n")
    assert _ram((limit,)) == GIB
    limit.write_text("max\n")
    assert _ram((limit,)) == _ram((tmp_path / "absent",))


def test_a_long_answer_ends_at_its_limit(fake):
    fake("talker", "print('x' * 5000)")
    assert ask(("talker",), max_bytes=100).problem.code == "probe.too-long"
    assert ask(("talker",), max_bytes=6000).text == "x" * 5000 + "\n"
