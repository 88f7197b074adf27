"""Reading a card: every value, every refusal with its place, and nothing but a card or its problems."""

import datetime
import hashlib
from decimal import Decimal
from pathlib import Path

import pytest
from card_cases import BAD, DESIGN_CARD, HEAD, TUNING

from capienza.card.load import LIMITS, load_card, parse_card
from capienza.card.model import (
    Budget,
    Calendar,
    Card,
    Engine,
    Host,
    ModelRef,
    Placement,
    Reasoned,
    Step,
    TokenCount,
    Tokens,
    Training,
    Weights,
)
from capienza.card.quality_model import Metric, Quality
from capienza.errors import InputErrors, UnreachableError
from capienza.units import Money

ROME = datetime.timezone(datetime.timedelta(hours=1))


def refused(text: str | bytes) -> list[str]:
    """Each problem of a card as `line:column code key`."""
    with pytest.raises(InputErrors) as caught:
        parse_card(text, "c.yaml")
    return [
        f"{p.place.line}:{p.place.column} {p.message.code.removeprefix('card.')} {p.place.key}"
        for p in caught.value.problems
    ]


def hint(text: str) -> str:
    with pytest.raises(InputErrors) as caught:
        parse_card(text)
    (row,) = caught.value.as_dict()
    return str(row["hint"])


def test_the_card_of_the_design_reads_as_written():
    assert parse_card(DESIGN_CARD) == Card(
        name="support-assistant",
        model=ModelRef(id="Qwen/Qwen3-8B", revision="9c925d64d72725edaf899c6cb9c377fd0709d9c5"),
        task="inference",
        weights=Weights(format="bf16"),
        engine=Engine(name="vllm", version="0.11.2", options={"gpu_memory_utilization": 0.9}),
        tokens=Tokens(
            short=TokenCount(total=512),
            usual=TokenCount(total=4096),
            required=TokenCount(total=32768, prompt=30720, output=2048),
        ),
        concurrency=8,
        reserve=Reasoned(amount_bytes=6 * 2**30, reason="first hypothesis, to be replaced by measured phases"),
        margin=Reasoned(amount_bytes=2 * 2**30, reason="spread of three observed runs"),
        quality=Quality(
            corpus="eval/corpus.jsonl",
            metrics=(Metric(name="exact_match", min=Decimal("0.82"), max_regression=Decimal("0.01")),),
        ),
        placement=Placement(gpus=1, tensor_parallel=1),
        host=Host(
            ram_bytes=64 * 2**30,
            storage_bytes=200 * 10**9,
            interconnect="none",
            managed_application="none",
            others_use_bytes=0,
        ),
        budget=Budget(cap=Money(Decimal(300), "USD")),
        calendar=Calendar(
            timezone="Europe/Rome",
            start=datetime.datetime(2026, 12, 7, tzinfo=ROME),
            deadline=datetime.datetime(2026, 12, 13, tzinfo=ROME),
            steps=(Step(name="run", hours=Decimal(30), basis="hypothetical"),),
        ),
        preferences=({"region": "eu"},),
        sha256=hashlib.sha256(DESIGN_CARD.encode()).hexdigest(),
    )


def test_what_is_not_stated_is_none_and_nothing_is_assumed():
    card = parse_card(HEAD)
    assert (card.engine, card.concurrency, card.reserve, card.margin, card.quality) == (None,) * 5
    assert (card.placement, card.host, card.budget, card.calendar) == (None,) * 4
    assert (card.tokens, card.weights, card.preferences) == (Tokens(), Weights(), ())


def test_none_is_said_and_not_left_out():
    card = parse_card(
        HEAD + "quality: none\nplacement: none\nbudget: none\ncalendar: none\nhost: {ram: none, storage: none}\n"
    )
    assert (card.quality, card.placement, card.budget, card.calendar) == ("none",) * 4
    assert card.host == Host(ram_bytes="none", storage_bytes="none")
    assert parse_card(HEAD + "host: none\n").host == "none"


def test_a_fine_tuning_card_keeps_the_options_it_does_not_list():
    card = parse_card(
        TUNING
        + "microbatch: 2\naccumulation: 8\n"
        + "training: {method: qlora, rank: 16, optimizer: adamw, gradient_checkpointing: true, alpha: 0.5, seed: 7}\n"
    )
    assert (card.microbatch, card.accumulation) == (2, 8)
    assert card.training == Training(
        method="qlora",
        rank=16,
        optimizer="adamw",
        options={"gradient_checkpointing": True, "alpha": 0.5, "seed": 7},
    )


@pytest.mark.parametrize(
    ("written", "parameters", "bits"),
    [
        ("{parameters: 7e9, bits: 16}", 7_000_000_000, Decimal(16)),
        ("{parameters: 7_e9, bits: 16}", None, None),
        ("{parameters: 8030261248, bits: 4.5}", 8_030_261_248, Decimal("4.5")),
        ("{parameters: 1e15, bits: 1.58}", 10**15, Decimal("1.58")),
    ],
)
def test_parameters_are_exact(written, parameters, bits):
    text = f"capienza: 1\nname: x\nmodel: {written}\ntask: inference\n"
    if parameters is None:
        assert refused(text) == ["3:21 not-a-whole-number model.parameters"]
    else:
        model = parse_card(text).model
        assert (model.parameters, type(model.parameters), model.bits) == (parameters, int, bits)


@pytest.mark.parametrize("text", BAD, ids=[" ".join(problems) for problems in BAD.values()])
def test_a_bad_card_is_refused_with_every_problem_in_its_place(text):
    assert refused(text) == BAD[text]


def test_the_problems_of_a_file_come_in_the_order_of_their_place():
    text = HEAD.replace("name: x", "name: [x]") + "budget: {cap: 1}\nbogus: 1\nmicrobatch: .inf\nconcurrency: 0\n"
    assert refused(text) == [
        "2:7 not-text name",
        "5:15 not-money budget.cap",
        "6:1 unknown-key bogus",
        "7:13 yamlmarks.not-finite None",
        "7:13 wrong-task microbatch",
        "8:14 not-a-whole-number concurrency",
    ]


def test_an_error_reads_file_line_column_key_found_and_accepted():
    with pytest.raises(InputErrors) as caught:
        parse_card(HEAD + "tokens:\n  required: 8k\n", "card.yaml")
    assert str(caught.value) == (
        'card.yaml:6:13: tokens.required: expected a whole number from 1 to 1000000000, got "8k"'
    )


HINTS = {
    "tokens: {required: 8k}": "8000 or 8192",
    "tokens: {required: 32K}": "32000 or 32768",
    "tokens: {required: '4096'}": "4096",
    "tokens: {required: '4,096'}": "4096",
    "tokens: {required: 1_000}": "1000",
    "tokens: {usul: 1}": "usual",
    "margin: {amount: 6}": "6 GB or 6 GiB",
    "margin: {amount: 8k}": "8 kB or 8 KiB",
    "margin: {amount: 6G}": "6 GB or 6 GiB",
    "margin: {amount: 6gb}": "6 GB",
    "margin: {amount: 6 gib}": "6 GiB",
    "budget: {cap: 300 usd}": "300 USD",
    "budget: {cap: $300}": "300 USD",
    "budget: {cap: 300 €}": "300 EUR",
    "budget: {cap: '1,300 USD'}": "1300 USD",
    "engine: {name: x, version: 0.10}": '"0.10"',
    "engine: {name: x, version: true}": '"true"',
    "gpus: 2": "placement.gpus",
    "revision: main": "model.revision",
    "Concurrency: 2": "concurrency",
    "calendar: {timezone: Europe/Roma}": "Europe/Rome",
    "calendar: {timezone: europe/rome, steps: []}": "Europe/Rome",
    "calendar: {steps: [{name: a, hours: 1, basis: Measured}]}": "measured",
}


@pytest.mark.parametrize("line", HINTS)
def test_the_hint_names_what_was_probably_meant(line):
    assert hint(HEAD + line) == f"Did you mean {HINTS[line]}?"


def test_parameters_with_a_letter_are_refused_with_the_number():
    text = HEAD.replace("{id: a/b}", "{parameters: 7B, bits: 16}")
    assert hint(text) == "Did you mean 7000000000?"


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("reserve: {amount: 1 GiB, reason: a guess, not more, really}", "a guess, not more, really"),
        ("reserve: {reason: a guess, not more, amount: 1 GiB}", "a guess, not more"),
        ('reserve: {amount: 1 GiB, reason: "a, b"}', "a, b"),
        ("reserve:\n  amount: 1 GiB\n  reason: a, b: c\n".replace(": c", " c"), "a, b c"),
        ("reserve:\n  amount: 1 GiB\n  reason: |\n    two\n    lines\n", "two\nlines\n"),
    ],
)
def test_a_reason_may_hold_commas_even_in_braces(written, reason):
    reserve = parse_card(HEAD + written).reserve
    assert reserve is not None
    assert reserve.reason == reason


def test_a_word_without_a_value_goes_with_a_reason_only():
    assert refused(HEAD + "reserve: {amount: 1 GiB, again, reason: x}") == ["5:26 unknown-key reserve.again"]
    assert refused(HEAD + "engine: {name: vllm, again}") == ["5:22 unknown-key engine.again"]


def test_paths_are_seen_from_the_folder_of_the_card(tmp_path: Path):
    folder = tmp_path / "cards"
    folder.mkdir()
    file = folder / "c.yaml"
    text = "capienza: 1\nname: x\nmodel: {path: ../m/a.gguf}\ntask: inference\nquality: {corpus: ./q.jsonl}\n"
    file.write_text(text)
    card = load_card(file)
    assert card.model.path == str(folder / "../m/a.gguf")
    assert isinstance(card.quality, Quality)
    assert card.quality.corpus == str(folder / "q.jsonl")
    assert (card.file, card.sha256) == (str(file), hashlib.sha256(text.encode()).hexdigest())
    assert parse_card(text).model.path == "../m/a.gguf"


def test_an_absolute_path_and_the_home_folder_stay_what_they_are(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    text = "capienza: 1\nname: x\nmodel: {path: PATH}\ntask: inference\n"
    assert parse_card(text.replace("PATH", "/m/a"), "d/c.yaml").model.path == "/m/a"
    assert parse_card(text.replace("PATH", "~/m/a"), "d/c.yaml").model.path == "/home/somebody/m/a"


def test_text_and_bytes_of_one_card_have_one_digest():
    assert parse_card(DESIGN_CARD) == parse_card(DESIGN_CARD.encode())


def test_a_missing_card_is_not_reachable_and_a_huge_one_not_a_card(tmp_path: Path):
    with pytest.raises(UnreachableError, match="no such file"):
        load_card(tmp_path / "none.yaml")
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (LIMITS.max_bytes + 1))
    with pytest.raises(Exception, match="larger than 256 KiB"):
        load_card(huge)


def test_the_first_line_for_editors_changes_nothing():
    commented = parse_card("# yaml-language-server: $schema=card.schema.json\n" + HEAD)
    assert commented.model == parse_card(HEAD).model


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"key{index}: 1\n" for index in range(9_000)),
        HEAD + "preferences: [" + "1, " * 9_000 + "]\n",
        HEAD + "quality: {metrics: [" + "{name: a}, " * 4_000 + "]}\n",
    ],
    ids=["unknown keys", "wrong items", "repeated metrics"],
)
def test_a_file_of_nothing_but_problems_names_a_hundred_and_says_so(text):
    problems = refused(text)
    assert len(problems) == 101
    assert "yamlmarks.too-many-problems" in " ".join(problems)


def test_a_huge_key_is_cut_in_its_error():
    with pytest.raises(InputErrors) as caught:
        parse_card(HEAD + "? " + "k" * 100_000 + "\n: 1\n")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *((name, value) for name in ("gpu_memory_utilization", "mem_fraction_static") for value in ("5", "0", "-0.9")),
        ("gpu_memory_utilization", "true"),
        ("gpu_memory_utilization", "high"),
        ("max_model_len", "-5"),
        ("max_model_len", "0"),
        ("max_model_len", "8192.5"),
        ("max_model_len", "long"),
        ("max_num_batched_tokens", "-1"),
        ("block_size", "0"),
        ("block_size", "3"),
        ("block_size", "1000000000"),
        ("--page-size", "-4"),
        ("page_size", "a"),
        ("max_batch_size", "0"),
        ("max_batch_size", "x"),
        ("max_num_tokens", "0"),
        ("tokens_per_block", "-32"),
        ("max_total_tokens", "0"),
        ("num_gpu_blocks_override", "-1"),
        ("kv_cache_memory_bytes", "lots"),
        ("free_gpu_memory_fraction", "7"),
        ("kv_cache_free_gpu_memory_fraction", "-1"),
        ("kv_cache_free_gpu_mem_fraction", "'.5'"),
        ("disable_cuda_graph", "perhaps"),
        ("block_size", "true"),
        ("max_num_seqs", "many"),
        ("max_num_seqs", "-256"),
        ("tensor_parallel_size", "0"),
        ("swap_space", "-4"),
        ("swap_space", "big"),
        ("enforce_eager", "5"),
        ("enforce_eager", "perhaps"),
        ("port", "70000"),
        ("kv_cache_dtype", "false"),
        ("kv_cache_dtype", "0"),
        ("kv_cache_dtype", "''"),
        ("--kv-cache-dtype", "0"),
        ("Max-Model-Len", "-5"),
    ],
)
def test_a_value_that_no_engine_takes_is_refused_with_its_place(option, value):
    start = "engine: {name: v, options: {"
    place = f"5:{len(start) + len(option) + 3} option-value engine.options.{option}"
    assert refused(f"{HEAD}{start}{option}: {value}}}}}\n") == [place]


@pytest.mark.parametrize(
    "options",
    [
        "gpu_memory_utilization: 0.9",
        "gpu_memory_utilization: 1",
        "mem_fraction_static: 0.001",
        "max_model_len: 16k",
        "max_model_len: auto",
        "max_model_len: -1",
        "max_num_batched_tokens: '8192'",
        "max_num_seqs: 1",
        "chunked_prefill_size: -1",
        "swap_space: 0",
        "swap_space: 4.5",
        "cpu_offload_gb: 10",
        "enforce_eager: true",
        "enforce_eager: 'False'",
        "kv_cache_dtype: fp8",
        "some_other_option: -5",
        "temperature: many",
    ],
)
def test_every_value_that_an_engine_takes_is_kept(options):
    assert parse_card(f"{HEAD}engine: {{name: v, options: {{{options}}}}}\n").engine.options


@pytest.mark.parametrize("written", ["'47,14'", "'8,5k'", "'1,00'"])
def test_a_decimal_comma_is_not_taken_for_a_thousands_mark(written):
    assert "Did you mean" not in hint(f"{HEAD}tokens: {{required: {written}}}")
