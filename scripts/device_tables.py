"""Write the device tables that ship with the package from the collected sources.

    python scripts/device_tables.py SOURCES_DIR

Copies the columns that the library reads, leaves out the rest (rates, power, links: nothing computes with them),
and changes nothing else, with these exceptions:

* alias rows of one catalogue that merges different cards under one name on export ("RTX4070" for the whole family)
  are left out: they describe that export, not what a person means by the name;
* GPUs that the sources name without a memory row are added with their nominal size only, so that a name with
  several sizes keeps all of them; nothing is reported for these, so they can never support a fit;
* a board that appears as several devices is written per device (MI250: two of 64 GB), as the sources do for others;
* private references in a source cell become "public log file".
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "src" / "capienza" / "catalog" / "data"

COLUMNS = {
    "gpus.csv": [
        "gpu_key",
        "marketing_name",
        "vendor",
        "product_class",
        "nominal_gb",
        "reported_mib",
        "reported_kind",
        "reported_ecc",
        "cuda_total_mib",
        "cuda_total_kind",
        "compute_capability",
        "gfx_arch",
        "memory_type",
        "ecc_effect",
        "devices_per_board",
        "mig",
        "notes",
        "sources",
    ],
    "gpu_memory_observations.csv": [
        "gpu_key",
        "reported_name",
        "kind",
        "mib",
        "ecc",
        "os",
        "driver",
        "reserved_mib",
        "confidence",
        "source",
        "note",
    ],
    "gpu_aliases.csv": ["alias", "spelling_system", "memory_gb", "gpu_key", "candidates", "note"],
    "mig.csv": [
        "gpu_key",
        "profile",
        "reported_mib",
        "lgip_gib",
        "sm_count",
        "max_instances",
        "confidence",
        "source",
        "note",
    ],
}

NVIDIA_LIST = "https://developer.nvidia.com/cuda-gpus (capability)"
AMD_LIST = "https://rocm.docs.amd.com/en/latest/reference/gpu-specs.html"
GPUHUNT = "gpuhunt 0.1.34 (size)"
DEVICES_PER_BOARD = {"a16": 4, "mi250": 2, "mi250x": 2}
SOLD_PER_BOARD = ("mi250", "mi250x")

# key, marketing name, vendor, class, nominal GB, capability, gfx, memory type, notes, sources
ADDED = (
    ("rtx2060_6", "GeForce RTX 2060 6GB", "NVIDIA", "geforce", "6", "7.5", "", "GDDR6", "", GPUHUNT),
    ("rtx2060_12", "GeForce RTX 2060 12GB", "NVIDIA", "geforce", "12", "7.5", "", "GDDR6", "", GPUHUNT),
    ("rtx2060s", "GeForce RTX 2060 SUPER", "NVIDIA", "geforce", "8", "7.5", "", "GDDR6", "", GPUHUNT),
    ("rtx2070", "GeForce RTX 2070", "NVIDIA", "geforce", "8", "7.5", "", "GDDR6", "", GPUHUNT),
    ("rtx2070s", "GeForce RTX 2070 SUPER", "NVIDIA", "geforce", "8", "7.5", "", "GDDR6", "", GPUHUNT),
    ("rtx2080", "GeForce RTX 2080", "NVIDIA", "geforce", "8", "7.5", "", "GDDR6", "", GPUHUNT),
    ("rtx2080s", "GeForce RTX 2080 SUPER", "NVIDIA", "geforce", "8", "7.5", "", "GDDR6", "", GPUHUNT),
    ("rtx3050_6", "GeForce RTX 3050 6GB", "NVIDIA", "geforce", "6", "8.6", "", "GDDR6", "", GPUHUNT),
    ("rtx3050_8", "GeForce RTX 3050 8GB", "NVIDIA", "geforce", "8", "8.6", "", "GDDR6", "", GPUHUNT),
    ("rtx3060_8", "GeForce RTX 3060 8GB", "NVIDIA", "geforce", "8", "8.6", "", "GDDR6", "", GPUHUNT),
    ("rtx3070ti", "GeForce RTX 3070 Ti", "NVIDIA", "geforce", "8", "8.6", "", "GDDR6X", "", GPUHUNT),
    ("rtx3080_12", "GeForce RTX 3080 12GB", "NVIDIA", "geforce", "12", "8.6", "", "GDDR6X", "",
     "note of the alias rows: a 12 GB card has the same name"),
    ("rtx4060ti_8", "GeForce RTX 4060 Ti 8GB", "NVIDIA", "geforce", "8", "8.9", "", "GDDR6", "", GPUHUNT),
    ("rtx4080s", "GeForce RTX 4080 SUPER", "NVIDIA", "geforce", "16", "8.9", "", "GDDR6X", "", GPUHUNT),
    ("rtx5060", "GeForce RTX 5060", "NVIDIA", "geforce", "8", "12.0", "", "GDDR7", "", GPUHUNT),
    ("rtx5060ti_8", "GeForce RTX 5060 Ti 8GB", "NVIDIA", "geforce", "8", "12.0", "", "GDDR7", "", GPUHUNT),
    ("quadro_rtx6000", "Quadro RTX 6000", "NVIDIA", "workstation", "24", "7.5", "", "GDDR6",
     "Turing; sellers also write RTX 6000 for the Ada card", GPUHUNT),
    ("rtx_a2000_12", "RTX A2000 12GB", "NVIDIA", "workstation", "12", "8.6", "", "GDDR6", "",
     "note of the alias rows: a 12 GB card has the same name"),
    ("rtx2000_ada", "RTX 2000 Ada Generation", "NVIDIA", "workstation", "16", "8.9", "", "GDDR6", "", GPUHUNT),
    ("rtx4000_ada", "RTX 4000 Ada Generation", "NVIDIA", "workstation", "20", "8.9", "", "GDDR6", "", GPUHUNT),
    ("rtxpro5000_72", "RTX PRO 5000 Blackwell 72GB", "NVIDIA", "workstation", "72", "12.0", "", "GDDR7",
     "announced in October 2025; shares the name with the 48 GB card", "note of the 48 GB row; maker's announcement"),
    ("gh200_144", "GH200 (144GB HBM3e)", "NVIDIA", "superchip", "144", "9.0", "", "HBM3e",
     "ARM host CPU; shares the short name with the 96 GB one", "note of the 96 GB row"),
    ("agx_orin_32", "Jetson AGX Orin 32GB", "NVIDIA", "superchip", "32", "8.7", "", "LPDDR5",
     "unified memory", "maker's module list"),
    ("mi100", "Instinct MI100", "AMD", "datacenter", "32", "", "gfx908", "HBM2", "", AMD_LIST),
    ("mi300a", "Instinct MI300A", "AMD", "superchip", "128", "", "gfx942", "HBM3",
     "memory shared with the CPU cores of the same package", AMD_LIST),
    ("mi350x", "Instinct MI350X", "AMD", "datacenter", "288", "", "gfx950", "HBM3e", "", AMD_LIST),
)  # fmt: skip

# alias, key, candidates, note: what people write and no source spells
ADDED_ALIASES = (
    ("RTX 6000", "", "quadro_rtx6000|rtx6000_ada", "Turing or Ada: the generation is not in the name"),
    ("GH200", "", "gh200_96|gh200_144", "the memory decides"),
    ("RTX PRO 6000", "", "rtxpro6000ws|rtxpro6000s|rtxpro6000mq", "edition not in the name"),
    ("RTX PRO 6000 Blackwell", "", "rtxpro6000ws|rtxpro6000s|rtxpro6000mq", "edition not in the name"),
    ("RTX PRO 5000", "", "rtxpro5000|rtxpro5000_72", "the memory decides"),
    ("RTX PRO 2000", "rtxpro2000", "", ""),
    ("RTX PRO 4500", "rtxpro4500", "", ""),
    ("RTX 2000 Ada", "rtx2000_ada", "", ""),
    ("RTX 4000 SFF Ada", "rtx4000sff_ada", "", ""),
    ("RTX 4000 Ada", "", "rtx4000_ada|rtx4000sff_ada", "the small card has the same memory"),
    ("RTX 5000 Ada", "rtx5000_ada", "", ""),
    ("A2000", "", "rtx_a2000_6|rtx_a2000_12", "the memory decides"),
    ("RTX 2080 Super", "rtx2080s", "", ""),
    ("DGX Spark", "gb10", "", ""),
    ("AGX Orin", "", "agx_orin_32|agx_orin_64", "the memory decides"),
    ("Gaudi 2", "gaudi2", "", ""),
    ("Gaudi 3", "gaudi3", "", ""),
)

MERGED_ON_EXPORT = "Vast merges"
PRIVATE = re.compile(r"stored index ids [0-9, ]+")


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(name: str, rows: list[dict[str, str]]) -> None:
    with (DATA / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS[name], lineterminator="\n", extrasaction="ignore", restval="")
        writer.writeheader()
        writer.writerows(rows)


def gpu_rows(sources: Path) -> list[dict[str, str]]:
    rows = read(sources / "gpus.csv")
    for row in rows:
        row["devices_per_board"] = str(DEVICES_PER_BOARD.get(row["gpu_key"], ""))
        if row["gpu_key"] in SOLD_PER_BOARD:
            row["nominal_gb"] = str(int(row["nominal_gb"]) // DEVICES_PER_BOARD[row["gpu_key"]])
    for key, name, vendor, kind, nominal, capability, gfx, memory, notes, source in ADDED:
        rows.append({
            "gpu_key": key, "marketing_name": name, "vendor": vendor, "product_class": kind, "nominal_gb": nominal,
            "compute_capability": capability, "gfx_arch": gfx, "memory_type": memory, "notes": notes,
            "sources": f"{source} || {NVIDIA_LIST}" if capability else source,
        })  # fmt: skip
    return rows


def alias_rows(sources: Path) -> list[dict[str, str]]:
    rows = [row for row in read(sources / "gpu_aliases.csv") if row["note"] != MERGED_ON_EXPORT]
    rows = [row for row in rows if MERGED_ON_EXPORT not in row["note"] and (row["gpu_key"] or row["candidates"])]
    for alias, key, candidates, note in ADDED_ALIASES:
        rows.append(
            {"alias": alias, "spelling_system": "people", "gpu_key": key, "candidates": candidates, "note": note}
        )
    return rows


def main(sources: Path) -> None:
    observations = read(sources / "gpu_memory_observations.csv")
    mig = read(sources / "mig.csv")
    for row in (*observations, *mig):
        row["source"] = PRIVATE.sub("public log file", row["source"])
    write("gpus.csv", gpu_rows(sources))
    write("gpu_memory_observations.csv", observations)
    write("gpu_aliases.csv", alias_rows(sources))
    write("mig.csv", mig)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
