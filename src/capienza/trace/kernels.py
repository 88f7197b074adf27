"""Memory that CUDA kernels take and fake kernels do not show: workspaces, and scratch inside an operator.

The table goes by the name of an operator (`aten.mm`), with its overload where that one alone is meant. What is not
known stands in it as such. Not in it, because nothing is taken: pointwise operators, `_foreach_*` except norms, fused
optimizers, dropout, cross entropy (`nll_loss`), GradScaler (`_amp_*`), scatter, gather, index_add, index_select.
Release 2.13 of PyTorch was read; differences of others are noted where they are known. No row was compared with a card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from capienza.errors import phrase
from capienza.trace import kernels_attention, kernels_blas, kernels_reduce, kernels_sort
from capienza.trace.kernels_call import Asked, Card, Rule, ScratchRow, Table


def _not_known(what: str, source: str) -> Rule:
    row = (ScratchRow(what, None, source),)

    def rule(_asked: Asked) -> Iterable[ScratchRow]:
        return row

    return rule


_CONVOLUTION = _not_known(phrase("convolution: workspace of the algorithm that cuDNN chooses"), "cudnn/Conv_v8.cpp")
_SOLVER = _not_known(phrase("cuSOLVER: workspace"), "linalg/BatchLinearAlgebra.cpp")
_FFT = _not_known(phrase("cuFFT: workspace of the plan"), "cuda/SpectralOps.cpp")
_RECURRENT = _not_known(phrase("cuDNN recurrent network: workspace"), "cudnn/RNN.cpp")
UNKNOWN: Table = {
    "aten.convolution": _CONVOLUTION,
    "aten._convolution": _CONVOLUTION,
    "aten.cudnn_convolution": _CONVOLUTION,
    "aten.cudnn_convolution_transpose": _CONVOLUTION,
    "aten.convolution_backward": _CONVOLUTION,
    "aten._cudnn_rnn": _RECURRENT,
    "aten._cudnn_rnn_backward": _RECURRENT,
    "aten._fft_c2c": _FFT,
    "aten._fft_r2c": _FFT,
    "aten._fft_c2r": _FFT,
    "aten.linalg_qr": _SOLVER,
    "aten._linalg_svd": _SOLVER,
    "aten._linalg_eigh": _SOLVER,
    "aten.linalg_cholesky_ex": _SOLVER,
    "aten.linalg_lu_factor_ex": _SOLVER,
    "aten._linalg_solve_ex": _SOLVER,
    "aten.linalg_inv_ex": _SOLVER,
    "aten.linalg_householder_product": _SOLVER,
}
TABLE: Table = {
    **kernels_blas.TABLE,
    **kernels_attention.TABLE,
    **kernels_sort.TABLE,
    **kernels_reduce.TABLE,
    **UNKNOWN,
}
_rules: dict[Any, Rule | None] = {}


def rule_of(operator: Any) -> Rule | None:
    """The rule of an operator (`torch._ops.OpOverload`), None where it takes nothing. Looked up once an operator."""
    try:
        return _rules[operator]
    except KeyError:
        name = str(operator)
        rule = _rules[operator] = TABLE.get(name) or TABLE.get(name.rpartition(".")[0])
        return rule


def scratch(
    operator: Any,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    card: Card,
    *,
    in_backward: bool = False,
    deterministic: bool = False,
) -> tuple[ScratchRow, ...]:
    """What the operator takes from the allocator besides its results, on that card.

    `in_backward` where autograd runs it: a thread of its own, with a workspace of its own.
    """
    rule = rule_of(operator)
    if rule is None:
        return ()
    return tuple(rule(Asked(args, dict(named), card, in_backward, deterministic)))
