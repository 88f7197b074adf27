"""Machines to measure on; NVML's symbols come from a small library that is compiled here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from machines import HERE, Machine


@pytest.fixture(scope="session")
def nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library; it is compiled once."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to build NVML's symbols with")
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    folder = tmp_path_factory.mktemp("nvml")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", HERE / "fake_nvml.c"], check=True)
    return folder


@pytest.fixture
def machine(tmp_path: Path, nvml_folder: Path) -> Machine:
    """A machine with NVML."""
    return Machine(tmp_path, nvml_folder)


@pytest.fixture
def bare_machine(tmp_path: Path) -> Machine:
    """A machine without a GPU."""
    return Machine(tmp_path, None)
