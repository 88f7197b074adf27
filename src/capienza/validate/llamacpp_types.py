"""Which tensor of a file has which format, from the counts that a log prints and the size of the whole.

Legend: role the tensors of one name over all blocks; main the most common format.
A format is given to whole roles, or as llama.cpp's own quantiser does: a richer format for attention's values and the
feed-forward's last matrix in the first and last eighth of the blocks and every third between ("more bits"), or in the
first eighth only; a format whose block does not divide a row gives way to the next one. The answer stands only when
every count agrees and the sum of bytes rounds to the stated size; otherwise nothing is known.
Source: `llama_tensor_get_type` (llama-quant.cpp at 0c1e57098).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice

from capienza.formats.blocks import BLOCKS
from capienza.units import GIB
from capienza.validate.llamacpp_shapes import Shape, Shapes

Types = dict[str, str]

FORKS: dict[str, tuple[int, int, int]] = {
    "iq1_s": (32, 6, 2),
    "iq1_m": (32, 7, 2),
    "iq2_bn": (64, 16, 4),
    "iq2_k": (256, 76, 0),
    "iq2_ks": (256, 70, 2),
    "iq3_k": (256, 110, 0),
    "iq3_ks": (256, 102, 2),
    "iq4_k": (256, 144, 0),
    "iq4_ks": (256, 136, 4),
    "iq4_kss": (256, 128, 4),
    "iq5_k": (256, 176, 0),
    "iq5_ks": (256, 168, 4),
    "iq6_k": (256, 212, 0),
    "q6_0": (32, 26, 0),
}
"""Formats of ik_llama.cpp: elements and bytes of one block, and bytes that every row has besides."""
INTERLEAVED = re.compile(r"_r[0-9]+$")
"""Rows woven together; of the same size, but for iq1_s and iq1_m."""
GIVES_WAY = {"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0", "q2_k": "q4_0", "q3_k": "q4_0", "iq4_xs": "iq4_nl"}
ALWAYS_PLAIN = re.compile(r"norm|ffn_gate_inp|conv1d|shortconv\.conv|ssm_a$|ssm_d$|sinks|\.bias$|rope_freqs|exp_probs")
LAST_MATRICES = ("ffn_down.weight", "ffn_down_exps.weight", "ffn_down_shexp.weight")
MAX_FREE_ROLES = 3
MAX_SUBSETS = 400
_ROLE = re.compile(r"blk\.(\d+)\.(.+)")


def infer_types(shapes: Shapes, counts: Mapping[str, int], stated_gib: float) -> Types | None:
    """The format of every tensor; None when no way of giving them agrees with the counts and the size."""
    plain = [name for name in shapes if ALWAYS_PLAIN.search(name)]
    if len(plain) != counts.get("fp32", 0) or len(shapes) != sum(counts.values()):
        return None
    wanted = {kind: count for kind, count in counts.items() if kind != "fp32"}
    matrices = {name: shape for name, shape in shapes.items() if not ALWAYS_PLAIN.search(name)}
    for types in (*_quantised(matrices, wanted), *_by_role(matrices, wanted)):
        whole = types | dict.fromkeys(plain, "fp32")
        size = total_bytes(shapes, whole)
        if size is not None and _rounds_to(size / GIB, stated_gib):
            return whole
    return None


def total_bytes(shapes: Shapes, types: Types) -> int | None:
    """Bytes of all tensors; None when a row is not a whole number of blocks."""
    sizes = [stored_bytes(shape, types[name]) for name, shape in shapes.items()]
    return None if None in sizes else sum(size for size in sizes if size)


def stored_bytes(shape: Shape, kind: str) -> int | None:
    """Bytes of one tensor; None when a row is not a whole number of blocks."""
    elements, size, more = block_of(kind)
    if shape[-1] % elements:
        return None
    return math.prod(shape[:-1]) * (shape[-1] // elements * size + more)


@cache
def block_of(kind: str) -> tuple[int, int, int]:
    """Elements and bytes of a block, and bytes of a row besides; no row has whole blocks of an unknown format."""
    block = BLOCKS.get(kind)
    if block is not None:
        return block.elements, block.bytes, 0
    plain = INTERLEAVED.sub("", kind)
    if plain in FORKS:
        return FORKS[plain]
    block = BLOCKS.get(plain)
    return (block.elements, block.bytes, 0) if block else (1 << 60, 0, 0)


def _rounds_to(value: float, stated: float) -> bool:
    """True when the value is the stated one, as far as that was printed; MiB figures were divided by 1024."""
    digits = len(repr(stated).partition(".")[2])
    return abs(value - stated) <= 0.1**digits


def _fits(kind: str, shape: Shape) -> str:
    """The format, or the one that takes its place where its blocks do not divide the row."""
    while kind in GIVES_WAY and shape[-1] % block_of(kind)[0]:
        kind = GIVES_WAY[kind]
    return kind


def _quantised(matrices: Shapes, wanted: Mapping[str, int]) -> Iterator[Types]:
    """What llama.cpp's quantiser makes of each pair of a main and a richer format."""
    blocks = 1 + max((int(match[1]) for name in matrices if (match := _ROLE.fullmatch(name))), default=0)
    rules: tuple[tuple[str, str, Callable[[str, int], bool]], ...] = (
        ("q4_k", "q6_k", lambda name, index: _is_rich(name) and _more_bits(index, blocks)),
        ("q5_k", "q6_k", lambda name, index: _is_rich(name) and _more_bits(index, blocks)),
        ("q4_0", "q4_1", lambda name, index: name in LAST_MATRICES and index < blocks // 8),
    )
    for main, richer, chooses in rules:
        types = {}
        for name, shape in matrices.items():
            match = _ROLE.fullmatch(name)
            if match is None:
                head = "output.weight" if "output.weight" in matrices else "token_embd.weight"
                kind = "q6_k" if name == head else main
            else:
                kind = richer if chooses(match[2], int(match[1])) else main
            types[name] = _fits(kind, shape)
        if Counter(types.values()) == Counter(wanted):
            yield types


def _is_rich(name: str) -> bool:
    return name == "attn_v.weight" or name in LAST_MATRICES


def _more_bits(index: int, blocks: int) -> bool:
    """The blocks whose last matrices get the richer format."""
    eighth = blocks // 8
    return index < eighth or index >= 7 * blocks // 8 or (index - eighth) % 3 == 2


def _by_role(matrices: Shapes, wanted: Mapping[str, int]) -> Iterator[Types]:
    """Whole roles for each format but the main one; a format that a row forces comes first."""
    roles: dict[str, list[str]] = {}
    for name in matrices:
        match = _ROLE.fullmatch(name)
        roles.setdefault(match[2] if match else name, []).append(name)
    if not wanted:
        return
    main = max(wanted, key=lambda kind: wanted[kind])
    others = [kind for kind in wanted if kind != main]
    forced = [role for role, names in roles.items() if matrices[names[0]][-1] % block_of(main)[0]]
    for given in _choices(roles, wanted, others, forced):
        yield {name: given.get(role, main) for role, names in roles.items() for name in names}


def _choices(
    roles: Mapping[str, list[str]], wanted: Mapping[str, int], others: list[str], forced: list[str]
) -> Iterator[dict[str, str]]:
    """Formats by role for the formats that are left, their counts met exactly."""
    if not others:
        if not forced:
            yield {}
        return
    kind, *rest = others
    open_roles = sorted(roles, key=lambda role: (role not in forced, role != "output.weight"))
    sizes = [len(roles[role]) for role in open_roles]
    most = len(forced) + MAX_FREE_ROLES
    for picked in sorted(islice(_subsets(sizes, wanted[kind], most), MAX_SUBSETS), key=len):
        chosen = [open_roles[index] for index in picked]
        left = {role: names for role, names in roles.items() if role not in chosen}
        still = [role for role in forced if role not in chosen]
        for more in _choices(left, wanted, rest, still):
            yield dict.fromkeys(chosen, kind) | more


def _subsets(sizes: list[int], target: int, most: int, start: int = 0) -> Iterator[list[int]]:
    """Positions of at most `most` sizes, in order, that add up to the target."""
    if target == 0:
        yield []
        return
    for index in range(start, len(sizes) if most else start):
        if sizes[index] <= target:
            for rest in _subsets(sizes, target - sizes[index], most - 1, index + 1):
                yield [index, *rest]
