"""A training block that cannot be: file, line, key, what was found, what is accepted. And a fuzz over the block."""

from __future__ import annotations

import contextlib
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.api import alternatives, limits, size
from capienza.api.recipes import card_recipe
from capienza.card.load import load_card
from capienza.card.training_options import KNOWN
from capienza.card.training_spellings import SPELLINGS
from capienza.errors import CapienzaError, InputError
from capienza.recipe.optimizers import NAMES

HEAD = """capienza: 1
name: x
model: {path: model}
task: fine-tuning
engine: {name: trl, version: "1.16.0"}
tokens: {required: 512}
microbatch: 2
accumulation: 2
"""
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512,
    "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
LORA = "method: lora\nrank: 8\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cards")
    (path / "model").mkdir()
    (path / "model" / "config.json").write_text(json.dumps(CONFIG))
    return path


def written(folder, block, head=HEAD, more=""):
    path = folder / "card.yaml"
    path.write_text(head + "training:\n" + "".join(f"  {line}\n" for line in block.splitlines()) + more)
    return path


def refusal(path):
    """What is said of a card, whether its files are asked or not."""
    with pytest.raises(InputError) as caught:
        _both(path)
    return caught.value


def _both(path):
    card_recipe(load_card(path))
    size(path)


@pytest.mark.parametrize(
    "block, more, place, words",
    [
        (LORA + "target_modules: [q_prj]", "", "12:19: training.target_modules", "Did you mean q_proj?"),
        (LORA + "target_modules: [nothing]", "", "12:19: training.target_modules", "q_proj, k_proj, v_proj, o_proj"),
        (LORA + "targets: nothing", "", "12:12: training.targets", "gate_proj, up_proj, down_proj"),
        ("method: lora\nlora_r: 65", "", "11:11: training.lora_r", "rank 65 is above the smaller side of q_proj"),
        ("method: lora\nrank: 33\ntargets: k_proj", "", "11:9: training.rank", "32 x 64"),
        ("method: lora\nr: 0", "", "11:6: training.r", "from 1 to 1000000, got 0"),
        ("method: lora\nr: -1", "", "11:6: training.r", "got -1"),
        ("method: lora\nr: 8.5", "", "11:6: training.r", "got 8.5"),
        ("method: lora\nr: yes", "", "11:6: training.r", 'got "yes"'),
        ("method: lora\nrank: 1e9", "", "11:9: training.rank", "got 1000000000"),
        ("method: loar\nrank: 8", "", "10:11: training.method", "Did you mean lora?"),
        (LORA + "optimizer: adamww", "", "12:14: training.optimizer", "Did you mean adamw?"),
        (LORA + "optimizer: adamw\npaged: true", "", "13:10: training.paged", "bitsandbytes"),
        (LORA + "objective: dpo\npacking: true", "", "13:12: training.packing", "objective is dpo"),
        (LORA + "objective: ppo", "", "12:14: training.objective", "sft, dpo, orpo, simpo, grpo"),
        ("method: full\nsharding: zero3\noptimizer_in_backward: true", "", "12:26", "zero3"),
        ("method: full", "weights: {format: nf4}\n", "10:11: training.method", "weights in nf4 cannot be trained"),
        ("method: qlora\nrank: 8", "weights: {format: bf16}\n", "10:11: training.method", "quantised weights"),
        ("method: full\nexport: merge", "", "11:11: training.export", "no adapters"),
        (LORA + "zero_stage: 4", "", "12:15: training.zero_stage", "expected one of 0, 1, 2, 3, got 4"),
        (LORA + "load_in_4bit: true", "", "12:17: training.load_in_4bit", "Write weights.format: nf4"),
        (LORA + "per_device_train_batch_size: 8", "", "12:32", "microbatch says 2"),
        (LORA + "gradient_accumulation_steps: 1", "", "12:32", "accumulation says 2"),
        (LORA + "max_seq_length: 4096", "", "12:19: training.max_seq_length", "tokens.required says 512"),
        (LORA + "bf16: true\nfp16: true", "", "13:9: training.fp16", "training.bf16 says bf16"),
        (LORA + "gradient_checkpointing: true\nuse_gradient_checkpointing: false", "", "13:31", "says false"),
        (LORA + "eval: none\neval_rows: 5", "", "13:14: training.eval_rows", "there is none"),
        (LORA + "alpha: 16 GiB", "", "12:10: training.alpha", 'got "16 GiB"'),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_with_its_place(folder, block, more, place, words):
    error = refusal(written(folder, block, more=more))
    hints = " ".join(str(row["hint"]) for row in error.as_dict())
    assert f"card.yaml:{place}" in str(error)
    assert words in f"{error} {hints}"


@pytest.mark.parametrize(
    "line, wrong, words",
    [
        ("microbatch: 2", "microbatch: 0", "microbatch: expected a whole number from 1"),
        ("microbatch: 2", "microbatch: 1.5", "got 1.5"),
        ("accumulation: 2", "accumulation: 0", "accumulation: expected a whole number from 1"),
        ("accumulation: 2", "accumulation: 4 GiB", 'got "4 GiB"'),
        ("required: 512", "required: 2k", "Did you mean 2000 or 2048?"),
    ],
)
def test_the_load_beside_the_block(folder, line, wrong, words):
    error = refusal(written(folder, LORA, head=HEAD.replace(line, wrong)))
    hints = " ".join(str(row["hint"]) for row in error.as_dict())
    assert words in f"{error} {hints}"


def test_what_only_makes_no_sense_is_told(folder):
    card = written(folder, LORA + "modules_to_save: [lm_head, foo]", head=HEAD.replace("512", "2048"))
    notes = " ".join(map(str, size(card).training.notes))
    assert "2048 tokens are required, and the model is made for 1024" in notes
    assert "no module of the model is called foo" in notes
    assert "lm_head, so" not in notes


def test_a_stored_format_in_four_bits_agrees_with_its_loader(folder):
    """Without the files nothing contradicts it: a checkpoint may be stored in four bits."""
    path = written(folder, LORA + "load_in_4bit: true", head=HEAD.replace("path: model", "id: org/model-bnb-4bit"))
    assert card_recipe(load_card(path))[0] is None


def test_the_same_twice_is_no_contradiction(folder):
    block = LORA + "per_device_train_batch_size: 2\ngradient_accumulation_steps: 2\nmax_seq_length: 512"
    recipe, _ = card_recipe(load_card(written(folder, block)))
    assert not [str(one) for one in recipe.left_out if "not known" in str(one)]


values = st.one_of(
    st.integers(-2, 100),
    st.floats(allow_nan=True, allow_infinity=True),
    st.booleans(),
    st.none(),
    st.sampled_from(
        ["none", "full", "lora", "qlora", "dora", "auto", "bf16", "fp32", "adamw", "adafactor", "all-linear", "q_proj",
         "zero3", "fsdp2", "grpo", "dpo", "chunked", "liger", "vllm_colocate", "merge", "selective", "true", "8", "",
         "🦜", "4 GiB", "nf4", "unsloth", "cpu", "8bit", "loop"]
    ),
    st.lists(st.sampled_from(["q_proj", "lm_head", "x"]), max_size=3),
    st.dictionaries(st.sampled_from(["a", "rank"]), st.integers(0, 3), max_size=2),
)  # fmt: skip
keys = st.sampled_from(
    sorted({"method", "rank", "optimizer", "export", "load_in_4bit", "max_seq_length", *KNOWN, *SPELLINGS})
)
sensible = st.fixed_dictionaries(
    {"method": st.sampled_from(["full", "lora", "qlora", "dora", "x"])},
    optional={
        "rank": st.integers(-1, 70), "optimizer": st.sampled_from([*NAMES, "x"]), "objective": st.sampled_from(
            ["sft", "dpo", "grpo"]), "gradient_checkpointing": st.sampled_from([True, False, "selective", "offload"]),
        "eval_microbatch": st.integers(0, 4), "eval_keeps_logits": st.booleans(), "export": st.sampled_from(
            ["merge", "none", "adapter", "bf16"]), "loss": st.sampled_from(["full", "chunked", "liger", "fused"]),
        "sharding": st.sampled_from(["none", "fsdp1", "fsdp2", "zero3", "ddp"]),
    },
)  # fmt: skip


@st.composite
def documents(draw):
    block = {**draw(sensible), **draw(st.dictionaries(keys, values, max_size=4))}
    document = yaml.safe_load(HEAD) | {"training": block}
    document["tokens"] = {"required": draw(st.one_of(st.sampled_from([1, 64, 5000, {"prompt": 30, "output": 9}])))}
    document["microbatch"] = draw(st.sampled_from([1, 2, 7]))
    document["accumulation"] = draw(st.sampled_from([1, 8]))
    if draw(st.booleans()):
        document["weights"] = {"format": draw(st.sampled_from(["bf16", "nf4", "int8", "fp8", "fp32"]))}
    if draw(st.booleans()):
        document["placement"] = {"data_parallel": draw(st.sampled_from([1, 2]))}
    return document


@given(documents())
@settings(max_examples=60)
def test_any_block_gets_an_answer_or_an_error_for_people(folder, document):
    path = folder / "fuzz.yaml"
    path.write_text(yaml.safe_dump(document, allow_unicode=True))
    for ask in (
        lambda: card_recipe(load_card(path)),
        lambda: size(path, gpu="L4"),
        lambda: limits(path, "T4"),
        lambda: alternatives(path, "L4", failed="backward"),
    ):
        with contextlib.suppress(CapienzaError):
            ask()
