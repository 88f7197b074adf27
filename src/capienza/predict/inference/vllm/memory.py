"""What vLLM takes besides weights and pool: the peak of the profile run, memory outside PyTorch, graphs, the context.

Legend: n tokens of the profile run, S sequences of it, V vocabulary, H hidden size, I intermediate size on this rank,
k experts a token takes, Im their width on this rank; 2 B an element.
    layers     n * (3 I + 4 H) * 2                     gate and up, their product, residual and normed stream
    experts    n * k * (max(2 Im, H) + Im) * 2 + n * 4 H * 2
    sampler    copies * S * V * 4 + n * H * 2          fp32 logits with their sort, and the hidden states
    peak       max(layers, sampler)
The sampler of PyTorch holds 9.65 copies of the fp32 logits at its worst moment (14 logs, 9.63 to 10.3, V0 0.6.5 to
V1 0.10.2); the one written in Triton, from 0.17, 5.8 (one log: Qwen3-8B, 0.19.1). Its logits are on rank 0 only.
    outside PyTorch    0.05 GiB on one GPU; with several 0.22 GiB over PCIe, 1.2 GiB over NVLink; 1.79 GiB for each
                       GPU of 0.6.5, which reads it absolutely
    graphs             captured sizes * layers * 0.4 MiB, in V0 0.73 (9 logs, 0.5 to 1.1); outside the budget until
                       0.20
    context            0.45 GiB, outside the budget always
Not in the profile run, so on top of the budget:
    several steps at once (V0)    steps * S * V * 4    the log-probabilities of each step stay until the last
    ALiBi with xformers (before 0.4)    query heads on this rank * L * L * 2, L the longest prompt taken at once
Slots for adapters are made after the model was measured in 0.6.3, and before in 0.8.5: until 0.8 they are in neither
the weights that it prints nor the budget (a log of 0.7.1 agrees). Graphs came with 0.2.6.
Until 0.2.4 the budget knew of PyTorch's memory alone.
Sources: the start-up lines of the measured cases, `worker.py` and `gpu_model_runner.py` of the wheels,
`multi_step_model_runner.py`, the ALiBi bias of the xformers backend.
"""

from __future__ import annotations

from capienza.architecture.model import Architecture, Layer, Mlp
from capienza.predict.inference.vllm.defaults import Settings
from capienza.units import GIB, MIB

SORTING_SAMPLER_COPIES = 9.65
TRITON_SAMPLER_COPIES = 5.8
CONTEXT_BYTES = int(0.45 * GIB)
ONE_GPU_OUTSIDE_BYTES = int(0.05 * GIB)
PCIE_OUTSIDE_BYTES = int(0.22 * GIB)
NVLINK_OUTSIDE_BYTES = int(1.2 * GIB)
ABSOLUTE_OUTSIDE_BYTES = int(1.79 * GIB)
GRAPH_BYTES_PER_LAYER = int(0.4 * MIB)
V0_GRAPH_BYTES_PER_LAYER = int(0.73 * MIB)
NVLINK_NAMES = ("a100", "a800", "h100", "h200", "h800", "h20", "b200", "b300", "gb200", "gb300", "v100", "mi2", "mi3")
BYTES_PER_ELEMENT = 2
ALIBI_TYPES = ("mpt", "bloom")


def activation_peak_bytes(architecture: Architecture, settings: Settings, tensor_parallel: int) -> int:
    """Rise of PyTorch's allocated bytes during the profile run."""
    return max(
        layer_peak_bytes(architecture, settings.max_num_batched_tokens, tensor_parallel),
        sampler_peak_bytes(architecture, settings),
    )


def sampler_peak_bytes(architecture: Architecture, settings: Settings) -> int:
    """The sampler at the end of the profile run."""
    copies = TRITON_SAMPLER_COPIES if settings.version.is_at_least(0, 17) else SORTING_SAMPLER_COPIES
    logits = copies * settings.max_num_seqs * architecture.vocab_size * 4
    return int(logits) + settings.max_num_batched_tokens * architecture.hidden_size * BYTES_PER_ELEMENT


def layer_peak_bytes(architecture: Architecture, tokens: int, tensor_parallel: int) -> int:
    """The widest layer of the profile run."""
    kinds = dict.fromkeys(layer.mlp for layer in architecture.layers)
    hidden = architecture.hidden_size
    widths = [_mlp_width(mlp, hidden, tensor_parallel) for mlp in kinds]
    return tokens * (max(widths, default=0) + 4 * hidden) * BYTES_PER_ELEMENT


def _mlp_width(mlp: Mlp | None, hidden: int, tensor_parallel: int) -> int:
    """Elements for one token inside the feed-forward part."""
    if mlp is None:
        return 0
    intermediate = -(-mlp.intermediate_size // tensor_parallel)
    if mlp.kind == "dense":
        return 3 * intermediate
    return mlp.num_experts_per_token * (max(2 * intermediate, hidden) + intermediate)


def outside_bytes(settings: Settings, ranks: int, gpu: str) -> int:
    """Growth of memory that PyTorch does not own: communication and workspaces."""
    if settings.version.is_stated and settings.version.number[:2] == (0, 6) and settings.version.number[2] == 5:
        return ABSOLUTE_OUTSIDE_BYTES * min(ranks, 2)
    if ranks == 1:
        return ONE_GPU_OUTSIDE_BYTES
    return NVLINK_OUTSIDE_BYTES if any(name in gpu.lower() for name in NVLINK_NAMES) else PCIE_OUTSIDE_BYTES


def captured_sizes(settings: Settings) -> int:
    """How many batch sizes are captured; decode graphs are captured apart from piecewise ones from 0.11."""
    if settings.enforce_eager:
        return 0
    version, sequences = settings.version, settings.max_num_seqs
    if not version.is_at_least(0, 2, 6):
        return 0
    if not version.is_v1:
        return 3 + sequences // 8 if sequences >= 8 else max(1, sequences.bit_length())
    largest = min(512, settings.max_num_batched_tokens)
    if not version.is_at_least(0, 11):
        return 3 + largest // 8
    largest = min(largest, 2 * sequences)
    piecewise = _sizes_to(largest)
    return piecewise + (_sizes_to(min(sequences, largest)) if version.is_at_least(0, 11, 1) else 0)


def _sizes_to(largest: int) -> int:
    """1, 2, 4, then steps of 8 below 256, steps of 16 from there."""
    small = sum(1 for size in (1, 2, 4) if size <= largest)
    return small + len(range(8, min(largest + 1, 256), 8)) + len(range(256, largest + 1, 16))


def graph_bytes(layers: list[Layer], settings: Settings) -> int:
    """Memory of the captured graphs."""
    one = GRAPH_BYTES_PER_LAYER if settings.version.is_v1 else V0_GRAPH_BYTES_PER_LAYER
    return captured_sizes(settings) * len(layers) * one


def step_bytes(architecture: Architecture, settings: Settings, steps: int) -> int:
    """Log-probabilities that scheduling several steps at once keeps; V1 has no such mode."""
    if steps < 2 or settings.version.is_v1:
        return 0
    return steps * settings.max_num_seqs * architecture.vocab_size * 4


def bias_bytes(architecture: Architecture, settings: Settings, tensor_parallel: int) -> int:
    """The attention bias of the longest prompt where positions are a bias and the kernel takes it as a tensor."""
    if architecture.model_type not in ALIBI_TYPES or settings.version.is_at_least(0, 4):
        return 0
    longest = min(settings.max_model_len or settings.max_num_batched_tokens, settings.max_num_batched_tokens)
    attention = next((layer.attention for layer in architecture.layers if layer.attention is not None), None)
    heads = 0 if attention is None else attention.num_attention_heads // tensor_parallel
    return heads * longest * longest * BYTES_PER_ELEMENT


def counts_outside(settings: Settings) -> bool:
    """Does the budget know of memory that PyTorch does not own?"""
    return settings.version.is_at_least(0, 2, 5)
