"""The device catalogue, as a document and as JSON (`capienza.devices/1`)."""

from __future__ import annotations

from typing import Any

from capienza.catalog.device import Device
from capienza.errors import Message
from capienza.i18n.translator import Say
from capienza.report.blocks import Document, Heading, Paragraph, Table
from capienza.report.tool import TOOL
from capienza.units import MIB

DEVICES_SCHEMA = "capienza.devices/1"


def devices_data(devices: tuple[Device, ...]) -> dict[str, Any]:
    """Every figure with its basis and sources; null is unknown."""
    return {"schema": DEVICES_SCHEMA, "tool": TOOL, "devices": [_device_data(device) for device in devices]}


def _device_data(device: Device) -> dict[str, Any]:
    words = ("largest_basis", "smallest_basis", "cuda_total_basis")
    data = {name: getattr(device, name) for name in device.__struct_fields__}
    return data | {name: None if data[name] is None else str(data[name]) for name in words}


def devices_document(devices: tuple[Device, ...], say: Say) -> Document:
    """One line a GPU; one GPU alone is shown with the basis of every figure."""
    if len(devices) == 1:
        return _one(devices[0], say)
    rows = tuple(
        (
            device.key,
            device.name,
            f"{device.nominal_gb} GB",
            _mib(device.reported_bytes, say),
            device.reported_ecc or say("unknown"),
            _mib(device.smallest_bytes, say),
            _mib(device.largest_bytes, say),
            _mib(device.cuda_total_bytes, say),
            _capability(device, say),
        )
        for device in devices
    )
    columns = (
        say("key"),
        say("name"),
        say("seller's number"),
        say("reported"),
        "ECC",
        say("least"),
        say("most"),
        say("CUDA total"),
        say("capability"),
    )
    return (
        Table(columns=columns, rows=rows, numeric=(2, 3, 5, 6, 7)),
        Paragraph(
            say(
                "Per GPU. Reported is the driver's total; least is with ECC on and most with ECC off: a fit is "
                "compared with the least, an exclusion with the most. The seller's number enters no comparison."
            )
        ),
    )


def _one(device: Device, say: Say) -> Document:
    rows = (
        (say("seller's number"), f"{device.nominal_gb} GB", say("text only, never compared")),
        (say("reported"), _mib(device.reported_bytes, say), f"ECC {device.reported_ecc or say('unknown')}"),
        (say("most"), _mib(device.largest_bytes, say), say.message(device.largest_basis)),
        (say("least"), _mib(device.smallest_bytes, say), say.message(device.smallest_basis)),
        (say("CUDA total"), _mib(device.cuda_total_bytes, say), _basis(device.cuda_total_basis, say)),
        (say("capability"), _capability(device, say), ""),
        (say("memory"), device.memory_type or say("unknown"), ""),
        (say("sources"), device.sources, device.notes),
    )
    return (
        Heading(f"{device.name} ({device.key})", 1),
        Table(columns=(say("figure"), say("value"), say("basis")), rows=rows),
    )


def _basis(basis: Message | None, say: Say) -> str:
    return "" if basis is None else say.message(basis)


def _mib(amount_bytes: int | None, say: Say) -> str:
    return say("unknown") if amount_bytes is None else f"{say.number(amount_bytes // MIB)} MiB"


def _capability(device: Device, say: Say) -> str:
    if device.compute_capability is not None:
        return ".".join(str(part) for part in device.compute_capability)
    return device.gfx_arch or say("unknown")
