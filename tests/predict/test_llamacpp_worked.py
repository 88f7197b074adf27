"""Worked tables: the figures that llama.cpp printed, as reference/llamacpp-mechanics.md and -local.md quote them."""

from __future__ import annotations

import msgspec
import pytest
from llamacpp_tables import dense, every, metadata, model, runtime_of

from capienza.errors import InputError
from capienza.formats.blocks import tensor_bytes
from capienza.formats.tensor import Tensor
from capienza.predict.inference.llamacpp.model import llama_model
from capienza.predict.inference.llamacpp.options import llama_runtime
from capienza.predict.inference.llamacpp.placement import place
from capienza.predict.inference.llamacpp.prediction import predict_llamacpp
from capienza.predict.inference.llamacpp.repack import repacked_bytes
from capienza.predict.inference.llamacpp.rules import era_of
from capienza.predict.inference.llamacpp.runtime import LlamaRuntime, sizes_of
from capienza.units import MIB


def built(stated, rows):
    tensors = [Tensor(name, shape, kind, tensor_bytes(shape, kind)) for name, shape, kind in rows]
    return llama_model(stated, tensors, "model.gguf")


def smol():
    """SmolLM2-135M in Q4_1, its table in the order of a converter."""
    stated = metadata("llama", 30, 576, 9, 3, 1536, 49152, 8192, rope__dimension_count=64)
    rows = dense(30, 576, 576, 192, 1536, 49152, tied=True, weights="q4_1", embedding="q8_0")
    return built(stated, rows)


def gemma270(weights="q8_0"):
    """Gemma 3 270M in one format: 18 blocks, three of them global."""
    stated = metadata(
        "gemma3", 18, 640, 4, 1, 2048, 262144, 32768, attention__key_length=256, attention__value_length=256,
        attention__sliding_window=512,
    )  # fmt: skip
    rows = dense(18, 640, 1024, 256, 2048, 262144, tied=True, key_norm=256, weights=weights, embedding="q8_0")
    norms = every(18, *((f"{name}.weight", (640,), "fp32") for name in ("post_attention_norm", "post_ffw_norm")))
    return built(stated, rows + norms)


def mib(answer, kind, device="CPU"):
    return round(answer.of(kind)[device].amount.expected / MIB, 2)


@pytest.mark.parametrize(
    ("context", "options", "cache", "compute", "output"),
    [
        (512, {"n_batch": 512}, 11.25, 98.25, 0.19),
        (1000, {}, 22.50, 98.25, 0.19),
        (4096, {"n_ubatch": 128}, 90.00, 24.56, 0.19),
        (4096, {"n_ubatch": 1024}, 90.00, 196.50, 0.19),
        (8192, {"flash_attn": "off"}, 180.00, 166.38, 0.19),
        (8192, {"flash_attn": "on", "cache_type_k": "q8_0", "cache_type_v": "q8_0"}, 95.62, 99.38, 0.19),
        (8192, {"flash_attn": "on", "cache_type_k": "q4_0", "cache_type_v": "q4_0"}, 50.62, 99.38, 0.19),
        (8192, {"flash_attn": "off", "cache_type_k": "q8_0"}, 137.81, 165.28, 0.19),
        (32768, {"flash_attn": "off"}, 720.00, 646.38, 0.19),
        (32768, {"cache_type_k": "q8_0", "cache_type_v": "q8_0", "n_ubatch": 2048}, 382.50, 397.51, 0.19),
        (4096, {"n_seq_max": 4}, 90.00, 98.25, 0.75),
        (4096, {"n_seq_max": 4, "kv_unified": True}, 90.00, 98.25, 0.75),
        (4096, {"n_seq_max": 3}, 101.25, 98.25, 0.56),
        (8192, {"n_outputs": 1}, 180.00, 21.51, 0.19),
    ],
)
def test_smollm2_on_the_host(context, options, cache, compute, output):
    runtime = LlamaRuntime(**{"n_ctx": context, "n_outputs": 2048} | options)
    answer = predict_llamacpp(smol(), runtime)
    found = [mib(answer, kind) for kind in ("kv_buffer", "compute_buffer", "output_buffer")]
    assert found == pytest.approx([cache, compute, output], abs=0.006)


@pytest.mark.parametrize(
    ("context", "options", "cache", "compute"),
    [
        (4096, {"n_ubatch": 128}, 12.00 + 11.25, 128.63),
        (4096, {"n_ubatch": 1024}, 12.00 + 22.50, 1029.00),
        (8192, {}, 24.00 + 15.00, 514.50),
        (8192, {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}, 12.75 + 7.97, 514.50),
        (4096, {"n_seq_max": 4}, 12.00 + 60.00, 514.50),
        (4096, {"n_seq_max": 4, "kv_unified": True}, 12.00 + 37.50, 514.50),
        (8192, {"swa_full": True}, 24.00 + 120.00, 514.50),
        (8192, {"n_outputs": 1}, 24.00 + 15.00, 26.77),
    ],
)
def test_gemma_keeps_two_caches(context, options, cache, compute):
    answer = predict_llamacpp(gemma270(), LlamaRuntime(**{"n_ctx": context, "n_outputs": 2048} | options))
    assert [mib(answer, kind) for kind in ("kv_buffer", "compute_buffer")] == pytest.approx([cache, compute], abs=0.011)


def test_a_tied_embedding_costs_twice_on_a_device():
    runtime = LlamaRuntime(devices=("CUDA0",), n_ctx=4096)
    answer = predict_llamacpp(gemma270(), runtime)
    assert mib(answer, "model_buffer", "CPU_Mapped") == 170.00
    embedding = 262144 * 640 // 32 * 34
    without = sum(t.bytes for t in gemma270().tensors if t.name != "token_embd.weight")
    assert answer.of("model_buffer")["CUDA0"].amount.expected > embedding + without


def test_equal_cards_share_thirty_blocks_sixteen_to_fourteen():
    runtime = LlamaRuntime(devices=("CUDA0", "CUDA1"), n_ctx=8192)
    answer = predict_llamacpp(smol(), runtime)
    assert [mib(answer, "kv_buffer", device) for device in runtime.devices] == [96.00, 84.00]
    # Two A40, as a public log of this model on a server with four slots prints them (its host part, of an earlier
    # build that copies one input less, is 34.30).
    found = predict_llamacpp(smol(), msgspec.structs.replace(runtime, n_seq_max=4, kv_unified=True))
    assert [mib(found, "compute_buffer", device) for device in runtime.devices] == [48.91, 48.91]
    assert mib(found, "output_buffer", "CUDA_Host") == 0.75


def test_the_last_layers_go_first():
    placed = place(32, LlamaRuntime(devices=("CUDA0",), n_gpu_layers=10))
    assert placed.output == "CUDA0"
    assert placed.blocks == ("CPU",) * 23 + ("CUDA0",) * 9
    assert place(32, LlamaRuntime(n_gpu_layers=10)).offloaded == 0
    alone = LlamaRuntime(devices=("CUDA0", "CUDA1"), split_mode="none", main_gpu=1)
    assert set(place(4, alone).blocks) == {"CUDA1"}


def test_three_sequences_ask_for_more_cells_than_the_request():
    sizes = sizes_of(LlamaRuntime(n_ctx=4096, n_seq_max=3), 0)
    assert (sizes.cells, sizes.streams) == (1536, 3)  # 4608 in all


def test_experts_can_be_kept_on_the_host_by_number_or_by_name():
    name, config = "qwen3-30b-a3b", {"c": 4096}
    by_number = predict_llamacpp(model(name), runtime_of(config, n_cpu_moe=48))
    pattern = ("ffn_(up|down|gate)_exps", "CPU")
    by_name = predict_llamacpp(model(name), runtime_of(config, override_tensor=(pattern,)))
    assert by_number.of("model_buffer") == by_name.of("model_buffer")
    assert by_number.of("compute_buffer") == by_name.of("compute_buffer")


def test_repacked_copies():
    matrix = Tensor("blk.0.ffn_up.weight", (1536, 576), "q4_1", 1536 * 576 // 32 * 20)
    assert repacked_bytes(matrix, "amx") == matrix.bytes
    wider = Tensor("output.weight", (49152, 576), "q8_0", 49152 * 576 // 32 * 34)
    assert repacked_bytes(wider, "amx") == 49152 * 576 // 32 * 38
    assert repacked_bytes(wider, "avx2") is None
    host = predict_llamacpp(smol(), LlamaRuntime(n_ctx=512, repack="amx"))
    assert mib(host, "model_buffer", "AMX") == 95.34


def test_older_builds_keep_windows_in_full_and_masks_wide():
    runtime = LlamaRuntime(n_ctx=8192, n_outputs=2048)
    old = predict_llamacpp(gemma270(), msgspec.structs.replace(runtime, era=era_of(5000)))
    assert mib(old, "kv_buffer") == 24.00 + 120.00
    device = LlamaRuntime(n_ctx=65536, n_outputs=1, devices=("CUDA0",))
    now, before = (
        predict_llamacpp(smol(), msgspec.structs.replace(device, era=era)) for era in (era_of(None), era_of(9000))
    )
    difference = mib(before, "compute_buffer", "CUDA_Host") - mib(now, "compute_buffer", "CUDA_Host")
    assert difference == pytest.approx(64.00, abs=0.01)


def test_a_latent_cache_is_narrow():
    tokens = 4096
    answer = predict_llamacpp(deepseek_r1(), LlamaRuntime(devices=("CUDA0",), n_ctx=tokens, use_mmap=False))
    assert answer.of("kv_buffer")["CUDA0"].amount.expected / tokens == pytest.approx(68.6 * 1024, rel=0.001)


def deepseek_r1():
    """The fewest tensors that stand for DeepSeek-R1 with split latent matrices."""
    stated = metadata(
        "deepseek2", 61, 7168, 128, 1, 18432, 129280, 163840, attention__kv_lora_rank=512, attention__key_length=576,
        attention__value_length=512, attention__key_length_mla=192, attention__value_length_mla=128,
        rope__dimension_count=64,
    )  # fmt: skip
    norms = [(f"blk.{block}.attn_norm.weight", (7168,), "fp32") for block in range(61)]
    return built(stated, [("token_embd.weight", (129280, 7168), "q4_k"), *norms])


def test_options_of_a_card():
    options = {
        "--ctx-size": 8192, "ngl": "all", "flash-attn": "on", "cache-type-k": "q8_0", "no_kv_offload": True,
        "tensor_split": "3,1", "cpu_moe": True, "threads": 8, "parallel": 2, "speculate": "yes",
        "override-tensor": r"blk\.1\.=CPU",
    }  # fmt: skip
    runtime, notes = llama_runtime(options, model("qwen3-30b-a3b"), version="b9000", devices=("CUDA0", "CUDA1"))
    assert [note.parameters["options"] for note in notes] == [("speculate",)]
    assert (runtime.n_ctx, runtime.n_gpu_layers) == (8192, -1)
    assert (runtime.cache_type_k, runtime.cache_type_v) == ("q8_0", "fp16")
    assert (runtime.kv_offload, runtime.tensor_split, runtime.n_cpu_moe) == (False, (3.0, 1.0), 48)
    assert runtime.override_tensor == ((r"blk\.1\.", "CPU"),)
    assert (runtime.n_seq_max, runtime.kv_unified, runtime.era.mask_is_f16) == (2, False, False)
    plain, notes = llama_runtime({}, model("qwen3-30b-a3b"))
    assert notes == ()
    assert (plain.n_seq_max, plain.kv_unified) == (4, True)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("ctx_size", "many"), ("ctx_size", -1), ("parallel", True), ("cache_type_k", "q9"), ("flash_attn", "maybe"),
        ("tensor_split", "3;1"), ("override_tensor", "blk"), ("n_gpu_layers", "most"), ("kv_offload", "perhaps"),
    ],
)  # fmt: skip
def test_bad_options_are_named(option, value):
    with pytest.raises(InputError) as caught:
        llama_runtime({option: value}, smol())
    assert caught.value.place.key == f"engine.options.{option}"
