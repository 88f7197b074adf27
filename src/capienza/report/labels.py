"""The words for entries, phases, statuses and fits, as users see them (DESIGN section 1)."""

from __future__ import annotations

from capienza.i18n.translator import Say, mark
from capienza.ledger.capacity import FitWord
from capienza.ledger.ledger import Total

ENTRY_LABELS = {
    "weights": mark("weights"),
    "kv_cache": mark("KV cache"),
    "state": mark("recurrent state"),
    "activations": mark("activations"),
    "engine_runtime": mark("engine: context, workspaces, graphs"),
    "loading": mark("extra while loading"),
    "loaded_extra": mark("tables, adapters and padding, loaded"),
    "activation_peak": mark("activations at their peak"),
    "non_torch": mark("engine: outside PyTorch"),
    "cuda_graph": mark("CUDA graphs"),
    "context": mark("CUDA context"),
    "kv_copies": mark("copies of the cache while it grows"),
    "prefill_logits": mark("logits of the prompt"),
    "logits": mark("logits"),
    "attention_copies": mark("keys and values spread to all heads"),
    "block_ends": mark("ends of the allocator's blocks"),
    "dequantized": mark("one matrix in the model's format"),
    "open_options": mark("options that are not understood"),
    "runtime_pool": mark("engine: pool of temporary matrices"),
    "compute_buffer": mark("compute buffer"),
    "output_buffer": mark("output buffer"),
    "load_conversion": mark("format conversion while loading"),
    "adapters": mark("adapters"),
    "gradients": mark("gradients"),
    "optimizer_states": mark("optimizer states"),
    "optimizer_transient": mark("extra during the optimizer step"),
    "logits_and_loss": mark("logits and loss"),
    "evaluation": mark("validation"),
    "checkpoint": mark("checkpoint"),
    "export": mark("export or merge"),
    "reserve": mark("chosen reserve"),
    "model_files": mark("files of the model, as stored"),
    "converted_files": mark("files in the resident format"),
    "data": mark("data stated in the card"),
    "checkpoint_files": mark("checkpoints kept"),
    "checkpoint_states": mark("optimizer states in a checkpoint"),
    "more_checkpoints": mark("more checkpoints than one"),
    "export_files": mark("export"),
    "outputs": mark("outputs to download"),
    "host_loading": mark("main memory while loading"),
    "host_buffers": mark("buffers on the host"),
    "host_mapped": mark("layers mapped from the file"),
    "offloaded_weights": mark("weights kept on the host"),
    "offloaded_states": mark("optimizer states on the host"),
    "kv_swap": mark("swap space of the cache"),
    "buffers": mark("buffers"),
    "inputs": mark("inputs"),
    "temporaries": mark("temporaries"),
    "recomputed_activations": mark("activations, recomputed"),
    "kernel_scratch": mark("scratch inside kernels"),
    "workspaces": mark("workspaces"),
    "unsharded_weights": mark("weights gathered from other ranks"),
    "unsharded_gradients": mark("gradients that are still whole"),
    "unsharded_tensors": mark("tables and constants, whole on every GPU"),
    "communication_buffers": mark("communication buffers"),
    "communication_library": mark("communication library"),
    "deferred_frees": mark("blocks that wait for a stream"),
    "rounding": mark("rounding to blocks"),
    "cached": mark("cached by the allocator"),
    "widened_weights": mark("weights taken up to fp32"),
    "untied_head": mark("second copy of the head"),
    "trained_copies": mark("modules trained whole"),
    "managed_states": mark("optimizer states, paged"),
    "side_weights": mark("weights, gradients and states of the side that sees or hears"),
    "side_activations": mark("activations of the side that sees or hears"),
    "kept_logits": mark("logits that the evaluation keeps"),
    "kept_outputs": mark("outputs that the loop keeps"),
    "pass_temporaries": mark("temporaries of the pass"),
    "reference_model": mark("reference model"),
    "reward_model": mark("reward model"),
    "rollout_engine": mark("engine that writes completions"),
    "rollout_residue": mark("what a sleeping engine keeps"),
    "sampling": mark("logits of the next tokens"),
    "measured_spread": mark("spread of measured cases"),
    "device_spread": mark("spread of the driver's readings"),
}

INPUT_LABELS = {
    "parameters": mark("parameters"),
    "bits": mark("bits"),
    "concurrency": mark("concurrency"),
    "cache format": mark("cache format"),
}

NEED_LABELS = {
    "the communication library's settings and links": mark("the communication library's settings and links"),
    "how far the streams are behind": mark("how far the streams are behind"),
    "a reading on the card": mark("a reading on the card"),
    "the headers of the model's files": mark("the headers of the model's files"),
    "the images or sounds of a row": mark("the images or sounds of a row"),
    "model layers": mark("the model's layers"),
    "stored files": mark("the files of the model, or their number format"),
    "a rule that this version does not have": mark("a rule that this version does not have"),
}

STATUS_LABELS = {
    "chosen": mark("chosen"),
    "estimated": mark("estimated"),
    "exact": mark("exact"),
    "measured": mark("measured"),
    "unknown": mark("unknown"),
}

FIT_LABELS = {
    "fit": mark("predicted fit"),
    "borderline": mark("borderline"),
    "overflow": mark("predicted overflow"),
}

INCOMPLETE = mark("incomplete")

TASK_LABELS = {"inference": mark("inference"), "fine-tuning": mark("fine-tuning")}


def label(labels: dict[str, str], name: str) -> str:
    """The English label of a name; the name itself when it has none."""
    return labels.get(name, name)


def fit_label(word: FitWord, peak: Total) -> str:
    """The English word for a prediction. A peak with unknown entries is never near a border that is known."""
    return INCOMPLETE if word == "borderline" and not peak.is_complete else label(FIT_LABELS, word)


def named(labels: dict[str, str], text: str, say: Say) -> str:
    """The name that is meant by a name, or by a label as reports show it; the text itself when neither is known."""
    wanted = " ".join(text.casefold().replace("_", " ").split())
    for name, english in labels.items():
        if wanted in (name.replace("_", " "), english.casefold(), say(english).casefold()):
            return name
    return text
