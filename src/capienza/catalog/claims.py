"""From what a sheet says of its GPU to one claim, shared by every offer that says the same."""

from __future__ import annotations

from typing import NamedTuple

from capienza.catalog import names
from capienza.catalog.devices import load_devices
from capienza.catalog.forms import FullGpu, Share
from capienza.catalog.notes import Findings, Notes
from capienza.catalog.numbers import plain_number
from capienza.catalog.offer import GpuClaim
from capienza.errors import Message, template
from capienza.units import MIB

UNKNOWN_KEY = template(
    "catalog.unknown-device-key", "no device has the key {found}", "`capienza devices` lists the keys."
)
KEY_CONTRADICTS = template(
    "catalog.key-contradicts-name",
    "{found} is not a card that the name {name} may mean",
    "Correct the key, or leave it out: the name is looked up.",
)
MEMORY_TWICE = template(
    "catalog.memory-twice", "the advertised memory is stated twice", "Keep one of memory_nominal_gb and memory_nominal."
)
MEMORY_WITHOUT_UNIT = template(
    "catalog.memory-without-unit",
    "expected a size with its unit such as 24 GB, got {found}",
    "Write {found} GB or GiB.",
)
NO_DRIVER_FIGURE = template(
    "catalog.driver-figure-missing",
    "the source of the memory is the driver, and there is no figure",
    "Add memory_reported_mib as `nvidia-smi --query-gpu=memory.total --format=csv` prints it.",
)
FIGURE_NOT_USED = template(
    "catalog.figure-without-driver",
    "the {found} MiB do not come from a driver, so they are not used",
    "Ask for the output of `nvidia-smi` on that machine, and write memory_source: driver.",
)
PROFILE_NOT_MIG = template(
    "catalog.profile-without-mig",
    "a MIG profile contradicts share: {found}",
    "Write share: mig, or leave the profile out.",
)
PROFILES_DIFFER = template(
    "catalog.profiles-differ", "the name says {named} and the profile {found}", "Keep the one that the seller confirms."
)
PROFILE_MISSING = template(
    "catalog.profile-missing",
    "the GPU is shared by MIG and the profile is not stated, so its memory is not known",
    "Ask for the profile, such as 3g.40gb.",
)

MAX_KEPT_CLAIMS = 10_000


class Claimed(NamedTuple):
    """A claim with what was noted while reading it."""

    claim: GpuClaim
    notes: Notes


class Claims:
    """The claims met so far: equal words give one object. Forgotten before hostile variety fills memory."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.known: dict[tuple[object, ...], Claimed] = {}

    def of(self, gpu: FullGpu) -> Claimed:
        """The claim for `gpu`."""
        words = (
            gpu.name_raw,
            gpu.key,
            tuple(gpu.candidates) if gpu.candidates else None,
            gpu.form_factor,
            gpu.memory_nominal_gb,
            gpu.memory_nominal,
            gpu.memory_reported_mib,
            gpu.memory_source,
            gpu.ecc,
            gpu.share,
            gpu.mig_profile,
            gpu.compute_capability,
            gpu.gfx_arch,
        )
        found = self.known.get(words)
        if found is None:
            if len(self.known) >= MAX_KEPT_CLAIMS:
                self.known.clear()
            found = self.known[words] = self._read(gpu)
        return found

    def _read(self, gpu: FullGpu) -> Claimed:
        notes = Notes()
        memory = _memory(gpu, notes)
        profile, share = _division(gpu, notes)
        reported = gpu.memory_reported_mib
        if gpu.memory_source == "driver" and reported is None:
            notes.problem(NO_DRIVER_FIGURE(), "gpu", "memory_source")
        elif reported is not None and gpu.memory_source != "driver":
            notes.finding(FIGURE_NOT_USED(found=reported), "gpu", "memory_reported_mib")
        claim = GpuClaim(
            name_raw=gpu.name_raw,
            candidates=self._candidates(gpu, memory, profile, notes),
            memory_nominal=memory,
            memory_reported_bytes=reported * MIB if reported else None,
            memory_source=gpu.memory_source,
            ecc=gpu.ecc,
            share=share,
            mig_profile=profile,
            form_factor=gpu.form_factor,
            compute_capability=gpu.compute_capability,
            gfx_arch=gpu.gfx_arch,
        )
        return Claimed(claim, notes)

    def _candidates(self, gpu: FullGpu, memory: str | None, profile: str | None, notes: Notes) -> tuple[str, ...]:
        name = gpu.name_raw
        if profile and not names.MIG_PROFILE.search(name):
            name = f"{name} {profile}"
        by_driver = gpu.memory_source == "driver" and gpu.memory_reported_mib
        stated = f"{gpu.memory_reported_mib} MiB" if by_driver else memory
        if stated and not by_driver and names.stated_gb(stated) is None and gpu.share not in ("vgpu", "timeslice"):
            notes.finding(names.MEMORY_NOT_READ(found=stated[:40]), "gpu", "memory_nominal")
            stated = None
        if gpu.share in ("vgpu", "timeslice"):
            stated = None  # a part of a GPU: its size does not tell which GPU it is
        keys = _stated_keys(gpu, notes)
        if keys:
            return keys
        found = names.lookup(name, stated, gpu.form_factor)
        if not found.candidates:
            notes.finding(self._unknown(gpu.name_raw), "gpu", "name_raw")
        for message in found.findings:
            notes.finding(message, "gpu", "name_raw")
        return found.candidates

    def _unknown(self, name: str) -> Message:
        """The near names are worth their milliseconds only while they will be shown."""
        wanted = all(self.findings.has_room(word.code) for word in (names.UNKNOWN_NAME, names.UNKNOWN_NAME_NEAR))
        return names.unknown_name(name) if wanted else names.UNKNOWN_NAME(found=name[:60])


def _memory(gpu: FullGpu, notes: Notes) -> str | None:
    if gpu.memory_nominal_gb is not None:
        if gpu.memory_nominal is not None:
            notes.problem(MEMORY_TWICE(), "gpu", "memory_nominal")
        return f"{plain_number(gpu.memory_nominal_gb)} GB"
    text = gpu.memory_nominal
    if text is not None and text.strip().replace(".", "", 1).isdecimal():
        notes.problem(MEMORY_WITHOUT_UNIT(found=text[:40]), "gpu", "memory_nominal")
    return text


def _division(gpu: FullGpu, notes: Notes) -> tuple[str | None, Share | None]:
    """The MIG profile, from its own key or from the name, and the kind of share."""
    named = names.MIG_PROFILE.search(gpu.name_raw)
    profile = gpu.mig_profile or (named[0].lower() if named else None)
    if named and gpu.mig_profile and named[0].lower() != gpu.mig_profile:
        notes.problem(PROFILES_DIFFER(named=named[0], found=gpu.mig_profile), "gpu", "mig_profile")
    is_mig = profile is not None or names.names_mig(gpu.name_raw)
    if is_mig and gpu.share not in (None, "mig"):
        notes.problem(PROFILE_NOT_MIG(found=gpu.share), "gpu", "share")
    if (is_mig or gpu.share == "mig") and not profile:
        notes.finding(PROFILE_MISSING(), "gpu", "share")
    return profile, "mig" if is_mig else gpu.share


def _stated_keys(gpu: FullGpu, notes: Notes) -> tuple[str, ...]:
    """The device keys that the file itself gives, checked against the table and the name."""
    stated = [gpu.key] if gpu.key else list(gpu.candidates or ())
    if not stated:
        return ()
    devices = load_devices()
    where = ("gpu", "key") if gpu.key else ("gpu", "candidates")
    unknown = [key for key in stated if key not in devices]
    for key in unknown:
        notes.problem(UNKNOWN_KEY(found=key[:60]), *where)
    named = names.lookup(gpu.name_raw).candidates
    for key in stated:
        if named and key in devices and key not in named:
            notes.problem(KEY_CONTRADICTS(found=key[:60], name=gpu.name_raw[:60]), *where)
    return tuple(key for key in devices if key in stated)
