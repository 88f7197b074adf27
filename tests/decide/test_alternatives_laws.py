"""Laws of alternatives: exactly one change, never of the requirement, the same answer in any order, figures of `size`.

The requirement is written down here a second time, field by field: the code's own list is not asked.
"""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from capienza.api import alternatives, size
from capienza.card.load import load_card
from capienza.decide.alternatives.effect import RELATIONS
from capienza.ledger.phase import Phase
from capienza.report.alternatives_data import alternatives_data

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "examples" / "configs"
MODEL = CONFIGS / "Qwen--Qwen2.5-0.5B"
NOW = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
LENGTHS = {"max_model_len", "max-model-len", "context_length", "max_total_tokens", "max_seq_len", "ctx_size"}
SEQUENCES = {"max_num_seqs", "max_running_requests", "max_batch_size", "parallel"}
OPTIONS = {
    "vllm": ({"gpu_memory_utilization": 0.9}, {"max-model-len": 8192, "max_num_seqs": 32}, {"enforce_eager": True}, {}),
    "sglang": ({}, {"mem_fraction_static": 0.7, "context_length": 8192}),
    "tgi": ({}, {"max_total_tokens": 8192, "cuda_memory_fraction": 0.9}),
    "tensorrt-llm": ({}, {"free_gpu_memory_fraction": 0.8}),
    "transformers": ({}, {"attn_implementation": "sdpa"}),
}
VERSIONS = {"vllm": ("0.11.2", "0.6.3"), "sglang": ("0.5.5",), "tgi": ("3.0.0",), "tensorrt-llm": ("1.0.0",),
            "transformers": ("4.57.0",)}  # fmt: skip
COMMON = {
    "capienza": 1,
    "name": "law",
    "model": {"path": str(MODEL)},
    "margin": {"amount": "1 GiB", "reason": "three runs"},
    "quality": {"corpus": "corpus.jsonl", "metrics": [{"name": "exact_match", "min": 0.82}]},
    "budget": {"cap": "300 USD"},
    "calendar": {"timezone": "UTC", "start": "2026-12-07", "deadline": "2026-12-12",
                 "steps": [{"name": "run", "hours": 30}]},
}  # fmt: skip


@st.composite
def served(draw):
    engine = draw(st.sampled_from([None, *OPTIONS]))
    document = {
        **COMMON,
        "task": "inference",
        "tokens": {"required": draw(st.sampled_from([2048, {"prompt": 1500, "output": 500}]))},
        "concurrency": draw(st.sampled_from([1, 6, 16])),
    }
    if engine is not None:
        options = draw(st.sampled_from(OPTIONS[engine]))
        version = draw(st.sampled_from(VERSIONS[engine]))
        document["engine"] = {"name": engine, "version": version, "options": dict(options)}
    placement = draw(st.sampled_from([None, {"gpus": 1}, {"gpus": 2, "tensor_parallel": 2}, {"data_parallel": 2}]))
    return document if placement is None else {**document, "placement": placement}


@st.composite
def trained(draw):
    method = draw(st.sampled_from(["full", "lora"]))
    training = {"method": method, "optimizer": draw(st.sampled_from(["adamw", "adamw_8bit"]))}
    training |= draw(st.sampled_from([{}, {"gradient_checkpointing": True}, {"Gradient-Checkpointing": False}]))
    document = {
        **COMMON,
        "task": "fine-tuning",
        "tokens": {"required": 1024},
        "microbatch": draw(st.sampled_from([1, 4, 6, 7])),
        "training": training | ({"rank": 8, "targets": "q_proj v_proj"} if method == "lora" else {}),
    }
    accumulation = draw(st.sampled_from([None, 1, 8]))
    placement = draw(st.sampled_from([None, {"gpus": 1}, {"gpus": 2, "data_parallel": 2}]))
    document |= {} if accumulation is None else {"accumulation": accumulation}
    document |= {} if placement is None else {"placement": placement}
    if draw(st.booleans()) and draw(st.booleans()):
        del document["training"]
    return document


documents = st.one_of(served(), trained())
gpus = st.sampled_from([None, "RTX 4090", "L4x2", "T4", "A100 3g.40gb"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cards")
    numbers = itertools.count()

    def written(document):
        file = path / f"{next(numbers)}.yaml"
        file.write_text(yaml.safe_dump(document, sort_keys=False))
        return load_card(str(file))

    return written


def asked(card, gpu, **more):
    """The answer; None for a --gpu that contradicts the card's own placement."""
    from capienza.errors import UsageError

    try:
        return alternatives(card, gpu, now=NOW, **more)
    except UsageError:
        return None


def wanted(card, *, but_method=False):
    """What the card asks for, as this test knows it; `but_method`: whatever is trained."""
    built = msgspec.to_builtins(card)
    same = {
        name: built[name] for name in ("tokens", "concurrency", "quality", "budget", "calendar", "margin", "reserve")
    }
    same |= {name: built[name] for name in ("task", "host", "preferences", "ranking", "name")}
    same["model"] = {name: built["model"].get(name) for name in ("id", "path", "revision", "parameters")}
    same["engine"] = card.engine and (card.engine.name, card.engine.version)
    training = card.training
    if but_method:
        return same
    same["trained"] = (training and (training.method, training.rank, training.options.get("targets"))) or (None,) * 3
    return same


def batch(card):
    copies = 1 if card.placement is None else card.placement.data_parallel
    return card.microbatch * (card.accumulation or 1) * copies if card.microbatch else None


def leaves(built, path=""):
    if isinstance(built, dict):
        return {key: value for name, part in built.items() for key, value in leaves(part, f"{path}.{name}").items()}
    return {path: str(built)}


def written_leaves(card):
    """What the card writes: a block that is not there and one that says nothing are the same."""
    return {path: value for path, value in leaves(msgspec.to_builtins(card)).items() if value not in ("None", "{}")}


def bare(card):
    """The card without the file it was read from."""
    return msgspec.structs.replace(card, file=None, sha256=None)


def set_in(document, path, value):
    """The YAML document with one line written, or deleted; a mapping that it leaves empty goes too."""
    first, _, rest = path.partition(".")
    value = float(value) if type(value).__name__ == "Decimal" else value
    # The recipe's own options are known by their plain names, however the card writes them.
    first = next((key for key in document if str(key).lower().replace("-", "_") == first), first)
    inner = set_in(document.get(first) or {}, rest, value) if rest else value
    kept = {key: each for key, each in document.items() if key != first}
    return kept if inner in (None, {}) and first != "options" else {**kept, first: inner}


@given(documents, gpus)
@hypothesis_settings(max_examples=25)
def test_no_alternative_touches_the_requirement(folder, document, gpu):
    card = folder(document)
    answer = asked(card, gpu)
    for one in answer.found.alternatives if answer else ():
        changed = one.change.card
        is_method = one.change.kind == "method"
        assert wanted(changed, but_method=is_method) == wanted(card, but_method=is_method)
        if is_method and one.after is not None:
            assert any(part.subject == "quality" and "method" in part.fields for part in one.invalidates)
        assert batch(changed) == batch(card), one.change.id
        for setting in one.change.settings:
            name = setting.path.rpartition(".")[2]
            if name in LENGTHS:
                assert setting.after >= card.tokens.required.total
            if name in SEQUENCES:
                assert setting.after >= card.concurrency


@given(documents, gpus)
@hypothesis_settings(max_examples=15)
def test_it_is_one_change_and_its_lines_are_all_that_differs(folder, document, gpu):
    card = folder(document)
    answer = asked(card, gpu)
    for one in answer.found.alternatives if answer else ():
        before, after = (written_leaves(each) for each in (card, one.change.card))
        differing = {path.lstrip(".") for path in {*before, *after} if before.get(path) != after.get(path)}
        paths = {setting.path.replace("training.", "") for setting in one.change.settings}
        heads = {path.removeprefix("training.options.").removeprefix("training.") for path in differing}
        if one.change.gpu is not None:
            assert not differing
            assert not paths
        else:
            assert paths <= heads | {"placement.gpus"}
            assert {head.split(".")[0] for head in heads} <= {path.split(".")[0] for path in paths} | {"training"}
        kinds = {path.split(".")[0] for path in paths}
        assert len(kinds) <= 1 or one.change.kind in ("microbatch", "placement", "method")


@given(documents)
@hypothesis_settings(max_examples=15)
def test_each_is_a_card_that_is_accepted_and_leads_back(folder, document):
    card = folder(document)
    for one in alternatives(card, None, now=NOW).found.alternatives:
        forward = document
        for setting in one.change.settings:
            forward = set_in(forward, setting.path, setting.after)
        written = folder(forward)
        assert bare(written) == bare(one.change.card), one.change.id
        back = forward
        for setting in one.change.settings:
            back = set_in(back, setting.path, setting.before)
        assert bare(folder(back)) == bare(card), one.change.id


@given(documents, gpus, st.randoms())
@hypothesis_settings(max_examples=10)
def test_the_order_of_what_is_written_changes_nothing(folder, document, gpu, random):
    turned = dict(document)
    for key in ("engine", "training"):
        if key in turned:
            inner = {**turned[key]}
            if "options" in inner:
                options = list(inner["options"].items())
                random.shuffle(options)
                inner["options"] = dict(options)
            turned[key] = inner
    one, other = asked(folder(document), gpu), asked(folder(turned), gpu)
    if one is None:
        assert other is None
        return
    first, second = alternatives_data(one), alternatives_data(other)
    assert {**first, "card": None} == {**second, "card": None}
    assert alternatives_data(asked(folder(document), gpu))["alternatives"] == first["alternatives"]


@given(documents, gpus, st.sampled_from(list(Phase)))
@hypothesis_settings(max_examples=15)
def test_the_order_is_that_of_the_page(folder, document, gpu, phase):
    answer = asked(folder(document), gpu, failed=str(phase))
    found = answer.found.alternatives if answer else ()
    refusals = [bool(one.refused) for one in found]
    assert refusals == sorted(refusals)
    possible = [one for one in found if not one.refused]
    if answer and phase not in answer.scene.now.peaks:
        assert all(one.relation is None for one in possible)
        return
    places = [RELATIONS.index(one.relation) for one in possible]
    assert places == sorted(places)
    for one in possible:
        (effect,) = [each for each in one.effects if each.phase == phase]
        assert (one.relation == "lowers") == (effect.difference_bytes is not None and effect.difference_bytes < 0)
        if one.relation == "does_not_touch":
            assert effect.difference_bytes == 0


@given(served(), st.sampled_from(["RTX 4090", "L4", "H100 SXM"]))
@hypothesis_settings(max_examples=6)
def test_the_figures_are_those_that_size_gives_for_the_changed_card(folder, document, gpu):
    document = {**document, "placement": {"gpus": 1}}
    for one in alternatives(folder(document), gpu, now=NOW).found.alternatives[:12]:
        if one.after is None or not one.after.peaks:
            continue
        sized = size(one.change.card, gpu=one.change.gpu.name if one.change.gpu else gpu)
        for effect in one.effects:
            peaks = [sized.ledger.peak(effect.phase, device) for device in sized.ledger.gpus]
            assert effect.after.amount.expected == max(peak.amount.expected for peak in peaks)
            assert set(effect.after.missing) == {name for peak in peaks for name in peak.missing}
        assert one.after.word == sized.fit.word
        assert one.after.margin_bytes is not None
        assert one.after.is_excluded == sized.fit.is_excluded


@given(documents, gpus)
@hypothesis_settings(max_examples=15)
def test_unknown_is_never_taken_for_no_effect(folder, document, gpu):
    answer = asked(folder(document), gpu)
    for one in answer.found.alternatives if answer else ():
        for effect in one.effects:
            assert (effect.difference_bytes is None) == bool(effect.lacking)
            if effect.before is None or effect.after is None:
                continue
            assert set(effect.before.missing) ^ set(effect.after.missing) <= set(effect.lacking)
            if effect.difference_bytes is not None:
                assert effect.difference_bytes == effect.after.need_bytes - effect.before.need_bytes
        if any(effect.lacking for effect in one.effects):
            assert one.difference_bytes is None
