"""A card for llama.cpp: the engine's own buffers, options that leave no room, and what is proved."""

from __future__ import annotations

import json

import pytest

gguf = pytest.importorskip("gguf")
numpy = pytest.importorskip("numpy")

HIDDEN, LAYERS, HEADS, KV_HEADS, WIDTH, VOCABULARY = 256, 3, 4, 2, 512, 320
CARD = """capienza: 1
name: small
model: {{path: {path}}}
task: inference
engine: {{name: llama.cpp{version}, options: {{{options}}}}}
tokens: {{required: 1024}}
concurrency: {concurrency}
{more}"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(4096)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    shapes = {"token_embd.weight": (VOCABULARY, HIDDEN), "output_norm.weight": (HIDDEN,)}
    shapes["output.weight"] = (VOCABULARY, HIDDEN)
    kv = HIDDEN // HEADS * KV_HEADS
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.attn_norm.weight": (HIDDEN,),
            f"blk.{layer}.ffn_norm.weight": (HIDDEN,),
            f"blk.{layer}.attn_q.weight": (HIDDEN, HIDDEN),
            f"blk.{layer}.attn_k.weight": (kv, HIDDEN),
            f"blk.{layer}.attn_v.weight": (kv, HIDDEN),
            f"blk.{layer}.attn_output.weight": (HIDDEN, HIDDEN),
            f"blk.{layer}.ffn_gate.weight": (WIDTH, HIDDEN),
            f"blk.{layer}.ffn_up.weight": (WIDTH, HIDDEN),
            f"blk.{layer}.ffn_down.weight": (HIDDEN, WIDTH),
        }
    for name, shape in shapes.items():
        writer.add_tensor(name, numpy.zeros(shape, dtype=numpy.float32 if len(shape) == 1 else numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def card(model, tmp_path):
    def write(options="", more="", version="b9849", concurrency=2):
        path = tmp_path / "card.yaml"
        stated = "" if version is None else f", version: {version!r}"
        text = CARD.format(path=model, options=options, more=more, version=stated, concurrency=concurrency)
        path.write_text(text)
        return path

    return write


def buffers(capienza, card, *arguments):
    shown = capienza("size", card, "--json", *arguments)
    assert (shown.code, shown.err) == (0, "")
    data = json.loads(shown.out)
    return {(b["kind"], b["device"]): b["expected_bytes"] for b in data["engine"]["buffers"]}, data


def entry(data, name, gpu="gpu:0"):
    return next(e["amount"] for e in data["entries"] if e["name"] == name and e["gpu"] == gpu)


def test_the_load_decides_what_the_options_leave_open(capienza, card):
    """Two sequences of 1024 tokens: 2 streams x 1024 cells x 3 layers x (K and V of 2 heads x 64) x 2 B."""
    found, data = buffers(capienza, card())
    assert found["kv_buffer", "CUDA0"] == 2 * 1024 * LAYERS * 2 * KV_HEADS * 64 * 2
    assert entry(data, "kv_cache")["expected_bytes"] == found["kv_buffer", "CUDA0"]
    assert entry(data, "weights")["expected_bytes"] == found["model_buffer", "CUDA0"]


@pytest.mark.parametrize(
    "options, factor",
    [("cache-type-k: f32, cache-type-v: f32", 2), ("ctx_size: 8192", 4), ("-c: 4096", 2)],
)
def test_options_are_read_as_llama_cpp_spells_them(capienza, card, options, factor):
    base, _ = buffers(capienza, card())
    found, _ = buffers(capienza, card(options))
    assert found["kv_buffer", "CUDA0"] == base["kv_buffer", "CUDA0"] * factor


def test_layers_on_the_host_leave_the_gpu(capienza, card):
    whole, _ = buffers(capienza, card("n_gpu_layers: 99"))
    half, _ = buffers(capienza, card("n_gpu_layers: 2"))
    assert half["model_buffer", "CUDA0"] < whole["model_buffer", "CUDA0"]
    assert half["kv_buffer", "CUDA0"] + half["kv_buffer", "CPU"] == whole["kv_buffer", "CUDA0"]


def test_two_gpus_share_the_layers(capienza, card):
    one, _ = buffers(capienza, card("n_gpu_layers: 99"))
    two, data = buffers(capienza, card("n_gpu_layers: 99", "placement: {gpus: 2}\n"))
    assert two["kv_buffer", "CUDA0"] + two["kv_buffer", "CUDA1"] == one["kv_buffer", "CUDA0"]
    assert entry(data, "kv_cache", "gpu:1")["expected_bytes"] == two["kv_buffer", "CUDA1"]


@pytest.mark.parametrize(
    "options, is_proved",
    [
        ("", False),
        ("n_gpu_layers: 99", True),
        ("ngl: all", True),
        ("ngl: auto", False),
        ("ngl: -1", False),
        ("n_gpu_layers: 99, odd: 1", False),
        ("n_gpu_layers: 99, split_mode: row", False),
        ("n_gpu_layers: 99, sm: tensor", False),
    ],
)
def test_nothing_is_proved_while_layers_may_stay_on_the_host(capienza, card, options, is_proved):
    _, data = buffers(capienza, card(options))
    assert (entry(data, "weights")["floor_bytes"] > 0) is is_proved
    assert ("odd" in json.dumps(data["model"]["notes"])) is ("odd" in options)
    assert is_proved is not any(word in json.dumps(data["model"]["notes"]) for word in ("odd", "nothing is proved"))


@pytest.mark.parametrize(
    "options, version, words",
    [
        ("", "b9849", ["fix n_gpu_layers", "parallel 2", "ctx_size 2048"]),
        ("ngl: 99, c: 2048", "b9849", ["parallel 2"]),
        ("ngl: 99, c: 2048, np: 2", "b9849", []),
        ("ngl: 99, c: 2048, np: 2", "9849", []),
        ("ngl: 99, c: 2048, np: 2", "x", ["llama.cpp x is taken by the rules of b9371"]),
        ("ngl: 99, c: 2048, np: 2", "0.1", ["llama.cpp 0.1 is taken by the rules of b9371"]),
        ("ngl: 99, c: 2048, np: 2", "2026.1", ["llama.cpp 2026.1 is taken by the rules of b9371"]),
        ("ngl: 99, c: 2048, np: 2", None, ["b9371"]),
        ("ngl: 99, c: 2048, np: 2, ts: '0,0'", "b9849", ["tensor_split of zeros"]),
    ],
)
def test_what_was_taken_is_said_and_nothing_else(capienza, card, options, version, words):
    _, data = buffers(capienza, card(options, "placement: {gpus: 2}\n", version=version))
    notes = json.dumps(data["model"]["notes"])
    assert all(word in notes for word in words), notes
    assert bool(words) is ("llama.cpp" in notes or "engine.options" in notes), notes


def test_a_divided_layer_is_said_and_proves_nothing(capienza, card):
    path = card("n_gpu_layers: 99", "placement: {gpus: 2, tensor_parallel: 2}\n")
    _, data = buffers(capienza, path)
    assert "tensor_parallel 2 divides each layer" in json.dumps(data["model"]["notes"])
    assert entry(data, "weights")["floor_bytes"] == 0


@pytest.mark.parametrize("concurrency, copies, each", [(8, 4, 2), (9, 4, 3), (300, 4, 75), (2, 1, 2)])
def test_copies_share_the_sequences(capienza, card, concurrency, copies, each):
    placement = f"placement: {{gpus: 1, data_parallel: {copies}}}\n"
    found, _ = buffers(capienza, card("ngl: 99", placement, concurrency=concurrency))
    alone, _ = buffers(capienza, card("ngl: 99", concurrency=each))
    assert found == alone


@pytest.mark.parametrize(
    "options, key, words",
    [
        ("ctx_size: 1024", "ctx_size", "2 sequences of 1024 tokens need 2048"),
        ("parallel: 1", "parallel", "1 sequences run at once"),
        ("n_gpu_layers: many", "n_gpu_layers", "many"),
        ("cache_type_k: fp5", "cache_type_k", "q8_0"),
        ("tensor_split: left", "tensor_split", "left"),
        ("tensor_split: '0,1'", "tensor_split", "accepted: N0\n"),
        ("n_gpu_layers: -5", "n_gpu_layers", ">= 0, all, auto"),
        ("parallel: 300", "parallel", "300 sequences at once"),
        ("main_gpu: 9", "main_gpu", "accepted: 0"),
        ("override_tensor: '[=CPU'", "override_tensor", "regular expression"),
        ("ot: '(?!a)=CPU'", "ot", "regular expression"),
        ("override_tensor: '.*=Banana'", "override_tensor", "PATTERN=CPU, PATTERN=CUDA0"),
        ("override_tensor: '.*=CUDA1'", "override_tensor", "PATTERN=CPU, PATTERN=CUDA0"),
        ("device: CUDA7", "device", "none, CUDA0"),
        ("device: Vulkan0", "device", "none, CUDA0"),
        ("device: ''", "device", "none, CUDA0"),
        ("device: 'CUDA0,CUDA0'", "device", "none, CUDA0"),
        ("ngl: 99, n_gpu_layers: 0", "n_gpu_layers", "ngl and n_gpu_layers are the same option"),
        ("ctx_size: 8192, c: 100000", "c", "the same option"),
        ("kv_offload: true, no_kv_offload: true", "no_kv_offload", "the same option"),
        ("--ctx-size: 8192, ctx_size: 8192", "ctx_size", "contradicts"),
        ("ctv: q4_0, flash_attn: off", "ctv", "needs flash attention"),
        ("cache_type_v: q8_0, fa: 0", "cache_type_v", "needs flash attention"),
    ],
)
def test_options_that_leave_no_room_or_cannot_be_are_refused_at_their_key(capienza, card, options, key, words):
    path = card(options)
    shown = capienza("size", path)
    assert (shown.code, shown.out) == (3, "")
    assert shown.err.startswith(f"{path}")
    assert f"engine.options.{key}" in shown.err
    assert words in shown.err


@pytest.mark.parametrize("command", ["size", "decide"])
@pytest.mark.parametrize("language", ["en", "it"])
def test_it_is_shown_to_people(capienza, card, command, language):
    shown = capienza(command, card("n_gpu_layers: 99"), "--lang", language)
    assert shown.code in (0, 10)
    assert shown.err == ""
    if command == "size":
        assert "CUDA_Host" in shown.out


@pytest.mark.parametrize("options", ["ctv: q4_0", "ctv: q4_0, fa: on", "ctk: q4_0, fa: off", "ctv: bf16, fa: off"])
def test_a_cache_that_llama_cpp_starts_with_is_sized(capienza, card, options):
    buffers(capienza, card(options))


def test_without_a_device_all_is_on_the_host(capienza, card):
    found, _ = buffers(capienza, card("ngl: 99, device: none"))
    assert {device for (_, device), size in found.items() if size} <= {"CPU", "CPU_Mapped"}
