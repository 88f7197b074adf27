"""Helpers of the import tests: a text in a form of others becomes offers, written and read back."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

from offer_files import placeless

from capienza.api.offer_files import offers_import
from capienza.catalog.notes import Findings
from capienza.catalog.offer import Offer
from capienza.catalog.read import read_offers

RETRIEVED = "2026-11-28"
GPUHUNT = [
    *("instance_name", "location", "price", "cpu", "memory", "gpu_count", "gpu_name", "gpu_memory", "spot"),
    *("disk_size", "gpu_vendor", "flags", "cpu_arch", "provider_data"),
]
SKYPILOT = [
    *("InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "GpuInfo", "Price", "SpotPrice"),
    *("Region", "AvailabilityZone"),
]
OFFER = {
    "id": 123,
    "gpu_name": "RTX 4090",
    "num_gpus": 2,
    "gpu_ram": 24564,
    "gpu_total_ram": 49128,
    "gpu_frac": 0.25,
    "compute_cap": 890,
    "cuda_max_good": 12.8,
    "driver_version": "570.86.10",
    "cpu_cores_effective": 16,
    "cpu_ram": 256000,
    "cpu_arch": "amd64",
    "disk_space": 512.5,
    "dph_base": 0.8,
    "dph_total": 0.8012,
    "storage_cost": 0.15,
    "inet_up_cost": 0.002,
    "inet_down_cost": 0.0,
    "min_bid": 0.44,
    "is_bid": False,
    "rentable": True,
    "rented": False,
    "reliability2": 0.9981,
    "verification": "verified",
    "geolocation": "Sweden, SE",
    "end_date": 1_798_761_600.0,
    "dlperf": 120.1,
    "bw_nvlink": 0.0,
}
GPU_TYPE = {
    "id": "NVIDIA GeForce RTX 4090",
    "displayName": "RTX 4090",
    "memoryInGb": 24,
    "secureCloud": True,
    "communityCloud": True,
    "securePrice": 0.69,
    "communityPrice": 0.34,
    "oneWeekPrice": 0.59,
    "oneMonthPrice": 0.55,
    "threeMonthPrice": None,
    "sixMonthPrice": 0,
    "maxGpuCount": 6,
    "lowestPrice": {"minimumBidPrice": 0.2, "uninterruptablePrice": 0.34, "stockStatus": "Low"},
}
INSTANCE = {
    "instance_type": {
        "name": "gpu_8x_a100",
        "description": "8x A100 (40 GB SXM4)",
        "gpu_description": "A100 (40 GB SXM4)",
        "price_cents_per_hour": 1032,
        "specs": {"vcpus": 124, "memory_gib": 1800, "storage_gib": 6144, "gpus": 8},
    },
    "regions_with_capacity_available": [{"name": "us-east-1", "description": "Virginia"}, {"name": "us-west-2"}],
}
BLOCK = {
    "CapacityBlockOfferingId": "cb-0123456789abcdefg",
    "InstanceType": "p5.48xlarge",
    "AvailabilityZone": "us-east-2c",
    "InstanceCount": 2,
    "StartDate": "2026-12-07T11:30:00+00:00",
    "EndDate": "2026-12-08T11:30:00+00:00",
    "CapacityBlockDurationHours": 24,
    "UpfrontFee": "1510.50",
    "CurrencyCode": "USD",
    "Tenancy": "default",
}


class Imported(NamedTuple):
    offers: list[Offer]
    findings: Findings

    @property
    def codes(self) -> dict[str, int]:
        return {code.removeprefix("import."): count for code, count in self.findings.counts.items()}

    def where(self, code: str) -> str:
        """line:column: key of the first finding of this code, and the text."""
        finding = next(found for found in self.findings.kept if found.message.code == f"import.{code}")
        place = finding.place
        return f"{place.line}:{place.column}: {place.key}: {finding.message}"


def imported(folder: Path, text: str | bytes, ending: str, **options: Any) -> Imported:
    """The offers of a file with this text, after it was written and read back."""
    path, out = folder / f"list.{ending}", folder / "out.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    options.setdefault("retrieved", RETRIEVED)
    report = offers_import(path, out, **options)
    offers = [placeless(offer) for offer in read_offers(out)]
    assert len(offers) == report.count
    return Imported(offers, report.findings)


def as_csv(names: list[str], *rows: dict[str, Any]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def gpuhunt(*rows: dict[str, Any]) -> str:
    usual = {"instance_name": "i", "location": "eu-1", "price": "2.0", "gpu_count": 1, "gpu_name": "L4"}
    usual |= {"gpu_memory": 24, "spot": "False", "gpu_vendor": "nvidia", "cpu_arch": "x86"}
    return as_csv(GPUHUNT, *({**usual, "instance_name": f"i{number}", **row} for number, row in enumerate(rows)))


def skypilot(*rows: dict[str, Any]) -> str:
    """Rows of SkyPilot's form; `mib` goes into GpuInfo as SizeInMiB, `name` as the name there."""
    texts = []
    for row in rows:
        row = {"InstanceType": "1x-L4-32-65536", "AcceleratorName": "L4", "AcceleratorCount": 1, "Price": "0.5", **row}
        name, mib, count = row.pop("name", row["AcceleratorName"]), row.pop("mib", None), row["AcceleratorCount"]
        if mib is not None:
            gpus = f"[{{'Name': '{name}', 'Count': {count}, 'MemoryInfo': {{'SizeInMiB': {mib}}}}}]"
            row["GpuInfo"] = f"{{'Gpus': {gpus}, 'TotalGpuMemoryInMiB': {mib}}}"
        texts.append(row)
    return as_csv(SKYPILOT, *texts)


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1)
