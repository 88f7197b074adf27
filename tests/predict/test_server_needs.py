"""Disk, main memory and download of a workload: worked figures, properties, and torch's own objects as oracle."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.card.model import Card, Engine, Host, ModelRef, Placement, TokenCount, Tokens, Training, Weights
from capienza.predict.model import load_model
from capienza.predict.sizing import ask_engine
from capienza.predict.storage import volumes_of
from capienza.predict.training.saved import saved
from capienza.units import GIB

CONFIGS = Path(__file__).parents[2] / "examples" / "configs"
LLAMA = CONFIGS / "meta-llama--Llama-3.1-8B"
WEIGHTS = 16_060_522_496
ADAPTERS = 41_943_040
"""Rank 16 on every linear layer of Llama 3.1 8B: 32 x 16 x (4096+4096 + 4096+1024 + 4096+1024 + 4096+4096
+ 3 x (4096+14336))."""


Q_AND_V = 32 * 16 * (4096 + 4096 + 4096 + 1024)


def a_card(**fields) -> Card:
    base = {"name": "x", "model": ModelRef(path=str(LLAMA)), "task": "inference"}
    return Card(**(base | fields))


def tuning(training=None, **fields) -> Card:
    recipe = {"method": "lora", "rank": 16, "optimizer": "adamw"} | (training or {})
    options = {key: recipe.pop(key) for key in list(recipe) if key not in ("method", "rank", "optimizer")}
    return a_card(task="fine-tuning", training=Training(**recipe, options=options), **fields)


MODEL = load_model(ModelRef(path=str(LLAMA)))


def amounts(entries) -> dict[str, object]:
    return {
        entry.name: entry.amount and (entry.amount.floor, entry.amount.expected, entry.amount.ceiling)
        for entry in entries
    }


def exact(amount):
    return (amount,) * 3


class TestDisk:
    def test_a_configuration_alone_gives_the_bytes_as_stored(self):
        volumes = volumes_of(a_card(), MODEL)
        assert amounts(volumes.storage) == {"model_files": exact(WEIGHTS)}
        assert volumes.storage_total.is_complete

    def test_files_count_with_their_headers_and_index(self, tmp_path):
        (tmp_path / "config.json").write_text((LLAMA / "config.json").read_text())
        header = json.dumps({"x": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}).encode()
        (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
        model = load_model(ModelRef(path=str(tmp_path)))
        total = sum(path.stat().st_size for path in tmp_path.iterdir())
        assert amounts(volumes_of(a_card(), model).storage) == {"model_files": exact(total)}

    def test_a_bare_count(self):
        card = a_card(model=ModelRef(parameters=7_000_000_000, bits="16"))
        model = msgspec.structs.replace(MODEL, artifact=None, architecture=None, parameters=7_000_000_000, bits=16)
        assert amounts(volumes_of(card, model).storage) == {"model_files": exact(14_000_000_000)}

    def test_another_resident_format_may_lie_beside_the_stored_one(self):
        found = amounts(volumes_of(a_card(weights=Weights(format="nf4_double")), MODEL).storage)
        assert found == {"model_files": exact(WEIGHTS), "converted_files": (0, 5_702_540_160, 5_702_540_160)}

    def test_streamed_weights_prove_nothing(self):
        engine = Engine(name="vllm", options={"load-format": "runai_streamer"})
        assert amounts(volumes_of(a_card(engine=engine), MODEL).storage)["model_files"] == (0, WEIGHTS, WEIGHTS)

    def test_no_format_anywhere_is_unknown_and_not_zero(self):
        model = msgspec.structs.replace(MODEL, dtype=None, stored_dtype=None)
        (files,) = volumes_of(a_card(weights=Weights(format="bf16")), model).storage[:1]
        assert (files.name, files.amount, files.needs) == ("model_files", None, ("stored files",))

    # training options, entries beside the model's files
    TABLE = [
        # Without targets PEFT's own for Llama are taken: q_proj and v_proj, of which nothing is proved.
        (
            {},
            {
                "checkpoint_files": (0, 12 * Q_AND_V, 12 * Q_AND_V),
                "more_checkpoints": None,
                "export_files": (0, 4 * Q_AND_V, 4 * Q_AND_V),
            },
        ),
        (
            {"targets": "all-linear"},
            {
                "checkpoint_files": (2 * ADAPTERS, 12 * ADAPTERS, 12 * ADAPTERS),
                "more_checkpoints": None,
                "export_files": (0, 4 * ADAPTERS, 4 * ADAPTERS),
            },
        ),
        (
            {"targets": "all-linear", "save_total_limit": 3, "save_only_model": False, "export": "adapter"},
            {
                "checkpoint_files": (3 * 6 * ADAPTERS, 3 * 12 * ADAPTERS, 4 * 12 * ADAPTERS),
                "export_files": (2 * ADAPTERS, 4 * ADAPTERS, 4 * ADAPTERS),
            },
        ),
        (
            {"targets": "all-linear", "save_total_limit": 1, "save_only_model": "true", "export": "bf16"},
            {
                "checkpoint_files": (2 * ADAPTERS, 4 * ADAPTERS, 8 * ADAPTERS),
                "export_files": exact(WEIGHTS),
            },
        ),
        (
            {"targets": "all-linear", "save_total_limit": 0, "optimizer": "lion", "export": "none"},
            {
                "checkpoint_files": (2 * ADAPTERS, 8 * ADAPTERS, 12 * ADAPTERS),
                "more_checkpoints": None,
            },
        ),
        ({"checkpoint": "none", "export": "none"}, {}),
        (
            {"method": "full", "save_total_limit": 2, "save_only_model": False, "export": "none"},
            {"checkpoint_files": (2 * 3 * WEIGHTS, 2 * 3 * WEIGHTS, 3 * 6 * WEIGHTS)},
        ),
        ({"method": "galore", "export": "none"}, {"checkpoint_files": None}),
        (
            {"targets": "all-linear", "save_total_limit": 1, "export": "bf16", "whatever": 1},
            {"checkpoint_files": (0, 12 * ADAPTERS, 24 * ADAPTERS), "export_files": (0, WEIGHTS, WEIGHTS)},
        ),
    ]

    @pytest.mark.parametrize("training, expected", TABLE)
    def test_what_training_writes(self, training, expected):
        found = amounts(
            volumes_of(
                tuning({"rank": None} | training if training.get("method") == "full" else training), MODEL
            ).storage
        )
        assert found.pop("model_files") == exact(WEIGHTS)
        assert found == expected

    def test_an_unknown_entry_says_what_it_needs(self):
        of_galore = {entry.name: entry for entry in volumes_of(tuning({"method": "galore"}), MODEL).storage}
        assert of_galore["checkpoint_files"].needs == ("weights.format",)
        entries = {entry.name: entry for entry in volumes_of(tuning(), MODEL).storage}
        assert entries["checkpoint_files"].amount is not None
        assert of_galore["export_files"].needs == ("training.export",)
        assert entries["export_files"].amount is not None

    @given(st.integers(1, 50), st.integers(1, 256))
    @settings(max_examples=200)
    def test_more_checkpoints_or_a_higher_rank_never_need_less(self, kept, rank):
        def files(kept, rank):
            card = tuning({"targets": "q_proj v_proj", "rank": rank, "save_total_limit": kept})
            return amounts(volumes_of(card, MODEL).storage)["checkpoint_files"]

        assert all(less <= more for less, more in zip(files(kept, rank), files(kept + 1, rank), strict=True))
        assert all(less <= more for less, more in zip(files(kept, rank), files(kept, rank + 1), strict=True))


class TestDownload:
    def test_an_export_is_downloaded_once(self):
        volumes = volumes_of(tuning({"targets": "all-linear", "export": "bf16"}), MODEL)
        assert amounts(volumes.egress) == {"export_files": exact(WEIGHTS)}

    @pytest.mark.parametrize("card", [a_card(), tuning({"export": "none"})])
    def test_what_is_not_computed_is_unknown(self, card):
        total = volumes_of(card, MODEL).egress_total
        assert total.missing == ("outputs",)
        assert total.amount.ceiling == 0


class TestMainMemory:
    def test_loading_is_named_and_never_zero(self):
        total = volumes_of(a_card(), MODEL).ram_total
        assert total.missing == ("host_loading",)

    @pytest.mark.parametrize("stated, gpus, floor", [(4, 1, 4 * GIB), (2.5, 2, 5 * GIB), (1000, 1, None)])
    def test_weights_kept_on_the_host(self, stated, gpus, floor):
        card = a_card(engine=Engine(name="vllm", options={"cpu_offload_gb": stated}), placement=Placement(gpus=gpus))
        found = amounts(volumes_of(card, MODEL).ram)["offloaded_weights"]
        outside = sum(p.elements for p in MODEL.architecture.parameters if p.role in ("embedding", "head", "norm"))
        assert found[0] == (WEIGHTS - 4 * outside if floor is None else floor)
        assert found[2] == int(gpus * stated * GIB)

    def test_offloaded_optimizer_states(self):
        card = tuning({"targets": "all-linear", "offload_optimizer": "cpu", "sharding": "zero2"})
        found = amounts(volumes_of(card, MODEL).ram)["offloaded_states"]
        assert found == (4 * ADAPTERS, 12 * ADAPTERS, 16 * ADAPTERS)

    def test_swap_may_be_left_unused(self):
        card = a_card(engine=Engine(name="vllm", options={"swap_space": 4}))
        assert amounts(volumes_of(card, MODEL).ram)["kv_swap"] == (0, 4 * GIB, 4 * GIB)


def test_adapters_are_those_of_the_modules_that_transformers_builds():
    """Oracle: the linear modules of the real class, without memory; PEFT adapts all of them but the head."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    for folder in ("meta-llama--Llama-3.1-8B", "Qwen--Qwen3-8B", "google--gemma-2-9b"):
        model = load_model(ModelRef(path=str(CONFIGS / folder)))
        config = transformers.AutoConfig.from_pretrained(CONFIGS / folder)
        with torch.device("meta"):
            built = transformers.AutoModelForCausalLM.from_config(config)
        linear = {name: one for name, one in built.named_modules() if isinstance(one, torch.nn.Linear)}
        for targets in ("all-linear", "q_proj, v_proj"):
            hit = [
                one
                for name, one in linear.items()
                if (name != "lm_head" if targets == "all-linear" else name.endswith(("q_proj", "v_proj")))
            ]
            expected = sum(8 * (one.in_features + one.out_features) for one in hit)
            found = saved(tuning({"rank": 8, "targets": targets}), model)
            assert found is not None
            assert found.parameters == expected, (folder, targets)


@pytest.mark.parametrize("dtype, width", [("float32", 4), ("bfloat16", 2)])
def test_adam_keeps_two_moments_in_the_format_of_the_parameter(dtype, width):
    """Oracle: the states that torch's own optimizer holds after a step."""
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.ones(1000, dtype=getattr(torch, dtype)))
    optimizer = torch.optim.AdamW([parameter])
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    held = sum(v.numel() * v.element_size() for v in optimizer.state[parameter].values() if v.numel() > 1)
    card = tuning({"method": "full", "rank": None}, weights=Weights(format={4: "fp32", 2: "bf16"}[width]))
    found = saved(card, MODEL)
    assert found is not None
    assert found.states is not None
    assert found.states.floor * 1000 == held * found.parameters


def test_a_gguf_on_llama_cpp_proves_what_is_allocated_on_the_host_and_not_what_is_mapped(tmp_path):
    pytest.importorskip("capienza.predict.inference.llamacpp")
    from capienza.predict.host_memory import ram_entries
    from capienza.predict.inference.llamacpp.buffers import LlamaBuffer, LlamaBuffers
    from capienza.units import Range

    words = {"status": "exact", "formula": volumes_of(a_card(), MODEL).storage[0].formula}
    buffers = LlamaBuffers(
        (
            LlamaBuffer(kind="model_buffer", device="CUDA0", amount=Range.exact(9 * GIB), **words),
            LlamaBuffer(kind="model_buffer", device="CPU_Mapped", amount=Range.exact(3 * GIB), **words),
            LlamaBuffer(kind="kv_buffer", device="CPU", amount=Range.exact(2 * GIB), **words),
            LlamaBuffer(kind="output_buffer", device="CUDA_Host", amount=Range.exact(GIB), **words),
        )
    )

    class Answer(msgspec.Struct):
        buffers: LlamaBuffers
        is_proved: bool

    found = amounts(ram_entries(a_card(), MODEL, Answer(buffers, True)))
    assert found["host_buffers"] == exact(3 * GIB)
    assert found["host_mapped"] == (0, 3 * GIB, 3 * GIB)
    assert amounts(ram_entries(a_card(), MODEL, Answer(buffers, False)))["host_buffers"] == (0, 3 * GIB, 3 * GIB)


def test_an_engine_without_buffers_of_the_host_changes_nothing():
    card = a_card(
        engine=Engine(name="vllm", version="0.11.2"), tokens=Tokens(required=TokenCount(total=4096)), concurrency=1
    )
    answer = ask_engine(card, MODEL, 1)
    assert answer is not None
    assert volumes_of(card, MODEL, answer) == volumes_of(card, MODEL)


def test_data_stated_in_the_card_is_chosen():
    (entry,) = (entry for entry in volumes_of(a_card(host=Host(data_bytes=5)), MODEL).storage if entry.name == "data")
    assert (entry.status, entry.amount.floor) == ("chosen", 5)
