"""What a GPU name may mean: every candidate is kept until the seller's own words settle which.

Names differ by maker's prefix, case and punctuation ("RTX_4090", "NVIDIA GeForce RTX 4090"), by memory and form words
("A100-SXM4-80GB") and by MIG profile ("A100 3g.40gb"). A stated memory is the seller's text: it chooses among
candidates by their nominal size and enters no other comparison.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal

import msgspec

from capienza.catalog.device import Device
from capienza.catalog.devices import load_devices, mig_profiles, table
from capienza.errors import NOWHERE, InputError, Message, Place, template
from capienza.units import GIB, QuantityError, parse_size

UNKNOWN_NAME = template(
    "catalog.unknown-gpu",
    "no GPU named {found} is known",
    "`capienza devices` lists the names that are known.",
)
UNKNOWN_NAME_NEAR = template(
    "catalog.unknown-gpu-near",
    "no GPU named {found} is known",
    "Did you mean {near}? `capienza devices` lists them all.",
)
AMBIGUOUS = template(
    "catalog.ambiguous-gpu",
    "{found} may be any of {candidates}",
    "State the memory and the form factor, or the total that the driver reports.",
)
MEMORY_CONTRADICTS = template(
    "catalog.memory-contradicts-gpu",
    "{found} does not exist with {memory}: known with {nominal} GB",
    "Ask the seller for the exact model, and for the total that the driver reports.",
)
MEMORY_NOT_READ = template(
    "catalog.memory-not-read",
    "the memory {found} is not a size such as 24 GB, so it settles nothing",
    "Write it as a number and a unit.",
)
FORM_CONTRADICTS = template(
    "catalog.form-contradicts-gpu",
    "no {found} exists in the form {form}",
    "Ask the seller for the exact model.",
)
MIG_CONTRADICTS = template(
    "catalog.mig-contradicts-gpu",
    "no {found} offers the MIG profile {profile}",
    "Read the profile with `nvidia-smi mig -lgip` on that machine.",
)

MAX_NAME = 200
MIG_PROFILE = re.compile(r"\b[0-9]g\.[0-9]{1,4}gb(?:\+[a-z0-9.]+)?(?![a-z0-9])", re.ASCII | re.IGNORECASE)
_MIG_WORD = re.compile(r"(?<![a-z0-9])mig(?![a-z0-9])", re.ASCII | re.IGNORECASE)
_LEAST, _MOST = Decimal("0.90"), Decimal("1.07")
"""How far a seller's size may be from the nominal one: 270 of 288, 22 of 24, 192 of 180 are all in use."""
HALF_GB = Decimal("0.5")

_MAKER = re.compile(r"\b(?:nvidia|geforce|tesla|amd|instinct|intel|gpu|tensor core|generation|edition|mig)\b")
_MEMORY_WORD = re.compile(r"(?<![0-9])([0-9]{1,4})[ -]?gi?b\b|\bhbm[0-9]e?\b|\bgddr[0-9]x?\b")
_FORM_WORD = re.compile(r"\b(pci-?e|sxm[0-9]?|nvl|oam)\b")
_NOT_NAME = re.compile(r"[^a-z0-9]")
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?([gmt])(i?)b?(?: [a-z0-9]*[a-z][a-z0-9]*)*", re.ASCII)
_BARE_MODEL = re.compile(r"[2-9]0[0-9]0(?:ti|s|super|tisuper)?", re.ASCII)


class Resolution(msgspec.Struct, frozen=True):
    """What a name may mean. `findings` say what is ambiguous or contradicts itself; `contradiction` is the latter."""

    name: str
    candidates: tuple[str, ...]
    mig_profile: str | None = None
    findings: tuple[Message, ...] = ()
    contradiction: bool = False


def resolve(name: str, memory: str | None = None, form_factor: str | None = None, place: Place = NOWHERE) -> Resolution:
    """Every catalogue key that `name` may mean, narrowed by the seller's memory ("24 GB") and form ("sxm").

    Raises `InputError` with near names when the name is not known.
    """
    found = lookup(name, memory, form_factor)
    if not found.candidates:
        raise InputError(unknown_name(name), place)
    return found


@functools.lru_cache(maxsize=4096)
def lookup(name: str, memory: str | None = None, form_factor: str | None = None) -> Resolution:
    """Like `resolve`, but an unknown name has no candidates instead of raising."""
    profile = MIG_PROFILE.search(name)
    keys, words = _named(MIG_PROFILE.sub(" ", name)) if len(name) <= MAX_NAME else ((), "")
    if not keys:
        return Resolution(name, ())
    narrowing = _Narrowing(name, keys)
    if form := form_factor or _form_word(words):
        narrowing.by_form(form)
    if profile:
        narrowing.by_profile(profile[0].lower())
        for stated in filter(None, (_memory_word(words), memory)):
            narrowing.by_whole_memory(stated, profile[0])
    else:
        for stated in filter(None, (_memory_word(words), memory)):
            narrowing.by_memory(stated)
    return narrowing.resolution(profile[0].lower() if profile else None)


def names_mig(name: str) -> bool:
    """Does the name say that a MIG instance is meant, with its profile or without?"""
    return MIG_PROFILE.search(name) is not None or _MIG_WORD.search(name) is not None


@functools.lru_cache(maxsize=4096)
def memory_in(name: str) -> str | None:
    """The memory that a seller's name states beside the GPU, such as 80 GB; None where it states none."""
    return _memory_word(_named(MIG_PROFILE.sub(" ", name))[1]) if len(name) <= MAX_NAME else None


class _Narrowing:
    """The candidates that are left, and what was found on the way. A contradiction keeps them all."""

    def __init__(self, name: str, keys: tuple[str, ...]) -> None:
        self.name = name[:60]
        self.keys = keys
        self.contradictions: list[Message] = []
        self.remarks: list[Message] = []

    def keep(self, kept: Iterable[str], contradiction: Message) -> None:
        keys = tuple(kept)
        if keys:
            self.keys = keys
        else:
            self.contradictions.append(contradiction)

    def by_form(self, form: str) -> None:
        wanted = _form_word(form.lower()) or form.lower()
        accepted = (None, wanted, "nvl") if wanted == "pcie" else (None, wanted)  # an NVL card sits in a PCIe slot
        kept = [key for key in self.keys if _form_of(key) in accepted]
        self.keep(kept, FORM_CONTRADICTS(found=self.name, form=form[:40]))

    def by_profile(self, profile: str) -> None:
        known = mig_profiles()
        listed = [key for key in self.keys if any(row_key == key for row_key, _ in known)]
        unlisted = [key for key in self.keys if key not in listed and may_have_mig(key)]
        possible = [key for key in unlisted if _has_slice(load_devices()[key], profile)]
        kept = [key for key in self.keys if (key, profile) in known or key in possible]
        self.keep(kept, MIG_CONTRADICTS(found=self.name, profile=profile))

    def by_whole_memory(self, stated: str, profile: str) -> None:
        """By a size beside a profile, where it is that of a whole GPU; the size of the part tells of none."""
        size = stated_gb(stated)
        if size is not None and not _is_near(size, _part_gb(profile)):
            self.keys = tuple(key for key in self.keys if has_size(load_devices()[key], size)) or self.keys

    def by_memory(self, stated: str) -> None:
        size = stated_gb(stated)
        if size is None:
            self.remarks.append(MEMORY_NOT_READ(found=stated[:40]))
            return
        nominal = ", ".join(sorted({load_devices()[key].nominal_gb for key in self.keys}, key=int))
        kept = [key for key in self.keys if has_size(load_devices()[key], size)]
        self.keep(kept, MEMORY_CONTRADICTS(found=self.name, memory=stated[:40], nominal=nominal))

    def resolution(self, profile: str | None) -> Resolution:
        remarks = list(self.remarks)
        if len(self.keys) > 1:
            remarks.append(AMBIGUOUS(found=self.name, candidates=self.keys))
        findings = (*self.contradictions, *remarks)
        return Resolution(self.name, self.keys, profile, findings, bool(self.contradictions))


def stated_gb(text: str) -> Decimal | None:
    """The number in a seller's memory text, in the unit it is written in ("24564 MiB" is 23.99); None when unclear."""
    match = _SIZE.fullmatch(" ".join(text[:80].lower().split()))
    if match is None:
        return None
    number, prefix, binary = match[1], match[2].upper(), match[3]
    try:
        amount = parse_size(f"{number} {prefix}{binary}B")
    except QuantityError:
        return None
    return Decimal(amount) / (GIB if binary else 10**9)


def has_size(device: Device, gb: Decimal) -> bool:
    """May a seller call this device, or the board it is on, one of `gb`?"""
    nominal = int(device.nominal_gb)
    return any(size * _LEAST <= gb <= size * _MOST for size in {nominal, nominal * device.devices_per_board})


def _has_slice(device: Device, profile: str) -> bool:
    """May a GPU of this size have the profile? MIG gives 1, 2, 4 or 8 of eight parts of the memory."""
    part = _part_gb(profile)
    return any(_is_near(part, Decimal(device.nominal_gb) * eighths / 8) for eighths in (1, 2, 4, 8))


def _part_gb(profile: str) -> Decimal:
    return Decimal(re.split(r"[.g+]", profile.lower())[2])


def _is_near(size: Decimal, nominal: Decimal) -> bool:
    """Is it that size, as sellers and profiles round it? Small ones are rounded to whole GB."""
    return nominal * _LEAST - HALF_GB <= size <= nominal * _MOST + HALF_GB


def may_have_mig(key: str) -> bool:
    """True when the table says that the card is divided into MIG instances."""
    return key in _divisible()


def unknown_name(name: str) -> Message:
    """The message for a name that is not in the tables, with near names where there are some."""
    import difflib

    shown = _displayed()
    near = difflib.get_close_matches(_plain(name[:60]), shown, n=3, cutoff=0.6)
    if not near:
        return UNKNOWN_NAME(found=name[:60])
    return UNKNOWN_NAME_NEAR(found=name[:60], near=", ".join(shown[word] for word in near))


def _named(name: str) -> tuple[tuple[str, ...], str]:
    """The keys of the most specific spelling that is known, and the words that were left out to find it."""
    words = _words(name)
    for strip in (None, _MEMORY_WORD, _FORM_WORD):
        left_out = words
        if strip is not None:
            words = strip.sub(" ", words)
        plain = _NOT_NAME.sub("", words)
        keys = _index().get(plain) or (_index().get(f"rtx{plain}") if _BARE_MODEL.fullmatch(plain) else None)
        if keys:
            return keys, "" if strip is None else " ".join([_words(name), left_out])
    return (), ""


def _words(name: str) -> str:
    return _MAKER.sub(" ", " ".join(re.split(r"[\s_(),/\u00ae\u2122]+", name.lower())))


def _plain(name: str) -> str:
    return _NOT_NAME.sub("", _words(name))


def _memory_word(words: str) -> str | None:
    match = next((found for found in _MEMORY_WORD.finditer(words) if found[1]), None)
    return f"{match[1]} GB" if match else None


def _form_word(words: str) -> str | None:
    match = _FORM_WORD.search(words)
    return match[1].rstrip("0123456789").replace("-", "") if match else None


@functools.cache
def _form_of(key: str) -> str | None:
    return _form_word(load_devices()[key].name.lower())


@functools.cache
def _divisible() -> frozenset[str]:
    return frozenset(row["gpu_key"] for row in table("gpus.csv") if row["mig"]) | {key for key, _ in mig_profiles()}


@functools.cache
def _index() -> dict[str, tuple[str, ...]]:
    """Every known spelling, without maker's words and punctuation, to all the keys it is used for."""
    devices = load_devices()
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in table("gpu_aliases.csv"):
        found[_plain(row["alias"])].update((row["gpu_key"] or row["candidates"]).split("|"))
    for key, device in devices.items():
        name = device.name.partition("(")[0]
        without_memory = _MEMORY_WORD.sub(" ", _words(name))
        for words in (key, device.name, name, without_memory, _FORM_WORD.sub(" ", without_memory)):
            found[_plain(words)].add(key)
    order = {key: position for position, key in enumerate(devices)}
    return {plain: tuple(sorted(keys, key=order.__getitem__)) for plain, keys in found.items()}


@functools.cache
def _displayed() -> dict[str, str]:
    """The spelling to show for each known one."""
    shown = {_plain(row["alias"]): row["alias"] for row in table("gpu_aliases.csv")}
    return shown | {_plain(device.name): device.name for device in load_devices().values()}
