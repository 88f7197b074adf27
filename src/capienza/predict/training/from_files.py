"""Models that have no description here, or of which only the text side has one: what their files' headers tell.

Every stored tensor is a parameter, but for tables of positions and the running figures of a batch norm: weights, and
with the trained set gradients and states, are exact. What a pass holds is not: the program itself has to be traced.
"""

from __future__ import annotations

from capienza.architecture.model import Architecture, Parameter, Role
from capienza.formats.tensor import Tensor
from capienza.predict.model import Model

BUFFERS = ("running_mean", "running_var", "num_batches_tracked", "position_ids", "relative_position_index")
"""Ends of the names of what is stored and never trained (torch BatchNorm; transformers CLIP, Swin)."""
EMBEDDINGS = ("embed_tokens", "word_embeddings", "wte", "shared", "token_embedding", "tok_embeddings")
HEADS = ("lm_head", "classifier", "score", "head", "cls_classifier", "distillation_classifier")
SIDES = "architecture.text-side-only"
"""The code of the note of a description that leaves a vision or audio side out."""
HEARS = ("num_mel_bins", "audio_config")
"""Keys of a configuration with a side that hears (Whisper, Qwen2-Audio)."""
FLOATS = frozenset({"fp32", "fp16", "bf16", "F32", "F16", "BF16"})


def is_sided(model: Model) -> bool:
    """Has the model a side beside its text, which sees images or hears?"""
    architecture = model.architecture
    if architecture is None:
        return False
    if model.artifact is not None and any(key in (model.artifact.config or {}) for key in HEARS):
        return True
    notes = (*architecture.notes, *model.differences)
    return any(note.code == SIDES for note in notes) or any(one.role == "vision" for one in architecture.parameters)


def of_files(model: Model) -> Architecture | None:
    """A model without layers that has the parameters of the files; None where their headers are not at hand."""
    artifact = model.artifact
    if artifact is None or artifact.kind != "safetensors" or not artifact.tensors or model.scheme is not None:
        return None
    if any(tensor.dtype not in FLOATS and not _is_buffer(tensor) for tensor in artifact.tensors):
        return None
    config = artifact.config or {}
    return Architecture(
        model_type=str(config.get("model_type") or config.get("_class_name") or "-"),
        hidden_size=0,
        vocab_size=0,
        max_position_embeddings=None,
        tied_head=False,
        layers=(),
        parameters=tuple(_parameter(one) for one in artifact.tensors if not _is_buffer(one)),
        buffers=tuple(_parameter(one) for one in artifact.tensors if _is_buffer(one)),
    )


def _is_buffer(tensor: Tensor) -> bool:
    return tensor.name.endswith(BUFFERS)


def _parameter(tensor: Tensor) -> Parameter:
    return Parameter(tensor.name, tensor.shape, _role(tensor))


def _role(tensor: Tensor) -> Role:
    module = tensor.name.removesuffix(".weight").rpartition(".")[2]
    if module in EMBEDDINGS:
        return "embedding"
    if module in HEADS:
        return "head"
    if "position_embedding" in tensor.name or "pos_embed" in tensor.name:
        return "position"
    return "norm" if len(tensor.shape) == 1 and ("norm" in tensor.name or ".ln" in tensor.name) else "other"
