"""`alternatives`: figures worked by hand, what comes first, what is refused, and what a person gets wrong."""

from __future__ import annotations

import datetime
import json

import pytest

from capienza.api import alternatives
from capienza.api import offers as read_offers
from capienza.evidence.record import Claim, Record, Scope, Subject
from capienza.evidence.store import seal, write_record
from capienza.units import GIB

CARD = """capienza: 1
name: serving
model: {{path: {path}}}
task: {task}
{lines}
"""
SERVED = """engine: {name: vllm, version: "0.11.2", options: {gpu_memory_utilization: 0.9, max_num_seqs: 64}}
tokens: {required: {prompt: 14336, output: 2048}}
concurrency: 8
placement: {gpus: 1}"""
TRAINED = """tokens: {required: 2048}
microbatch: 4
accumulation: 4
training: {method: lora, rank: 16, optimizer: adamw, targets: q_proj v_proj}
placement: {gpus: 1}"""


@pytest.fixture
def card(examples, tmp_path):
    def write(lines=SERVED, task="inference", model="Qwen--Qwen3-8B"):
        path = tmp_path / "card.yaml"
        path.write_text(CARD.format(path=examples / "configs" / model, task=task, lines=lines))
        return path

    return write


def by_id(answer):
    return {one.change.id: one for one in answer.found.alternatives}


def test_figures_worked_by_hand(card):
    """Qwen3 8B: 36 layers, 8 heads of 128 for keys and for values; 8 x 16384 tokens, 2 B each in bf16 and 1 in fp8."""
    found = by_id(alternatives(card(), "RTX 4090", failed="prefill"))
    cache = 8 * 16384 * 36 * 8 * 128 * 2
    assert found["engine.options.kv_cache_dtype: fp8"].difference_bytes == -cache
    # Two copies serve four sequences each: half the cache of bf16.
    assert found["placement.data_parallel: 2"].difference_bytes == -cache
    assert found["placement.data_parallel: 2"].gpus_in_all == 2
    assert found["placement.data_parallel: 8"].difference_bytes == -cache * 2 * 7 // 8
    # The share of the card: 0.95 leaves 0.05 of CUDA's total more for the cache.
    answer = alternatives(card(), "RTX 4090")
    now, more = answer.scene.now.pool, by_id(answer)["engine.options.gpu_memory_utilization: 0.95"].after.pool
    total = answer.scene.gpu.facts.total_bytes
    assert more.pool_bytes - now.pool_bytes == int(0.95 * total) - int(0.9 * total)


def test_a_smaller_microbatch_keeps_the_effective_batch(card):
    found = by_id(alternatives(card(TRAINED, "fine-tuning", "meta-llama--Llama-3.1-8B"), "L4"))
    halves = [one for name, one in found.items() if name.startswith("microbatch")]
    assert [(one.change.card.microbatch, one.change.card.accumulation) for one in halves] == [(1, 16), (2, 8)]
    # Copies that share nothing but their gradients hold as much as one, and DDP's buckets besides.
    assert not [name for name in found if "data_parallel" in name]
    shared = TRAINED.replace("gpus: 1", "gpus: 2").replace("{method", "{fsdp: true, method")
    more = by_id(alternatives(card(shared, "fine-tuning", "meta-llama--Llama-3.1-8B"), "L4"))
    wider = more["placement.gpus: 4; accumulation: 2"]
    assert wider.gpus == wider.gpus_in_all == 4
    assert wider.known_bytes < 0


def test_training_effects_are_those_of_the_phase_that_failed(card):
    found = by_id(alternatives(card(TRAINED, "fine-tuning", "meta-llama--Llama-3.1-8B"), "L4", failed="backward"))
    checkpointing = found["training.gradient_checkpointing: true"]
    effects = {effect.phase: effect for effect in checkpointing.effects}
    assert effects["backward"].difference_bytes < -30 * 2**30
    assert effects["optimizer_step_first"].difference_bytes == 0
    assert checkpointing.relation == "lowers"
    assert found["training.optimizer: adamw_8bit"].relation == "lowers"
    step = by_id(alternatives(card(TRAINED, "fine-tuning"), "L4", failed="optimizer_step_first"))
    assert step["training.gradient_checkpointing: true"].relation == "does_not_touch"
    assert step["training.optimizer: adamw_8bit"].relation == "lowers"


def test_what_lowers_the_failed_phase_comes_first(card):
    for phase, first in (("graph_capture", "engine.options.enforce_eager: true"), ("decode", "placement")):
        relations = [one.relation for one in alternatives(card(), "RTX 4090", failed=phase).found.alternatives]
        found = by_id(alternatives(card(), "RTX 4090", failed=phase))
        assert relations.index("lowers") == 0
        assert any(name.startswith(first) and one.relation == "lowers" for name, one in found.items())
    load = by_id(alternatives(card(), "RTX 4090", failed="load"))
    assert load["engine.options.kv_cache_dtype: fp8"].relation == "does_not_touch"
    assert load["engine.options.enforce_eager: true"].relation == "does_not_touch"
    assert load["capacity: L40S"].relation == "gives_room"


def test_a_share_gives_room_in_the_phases_after_it_is_taken(card):
    less, more = (f"engine.options.gpu_memory_utilization: {share}" for share in (0.8, 0.95))
    for phase, of_less, of_more in (
        ("decode", "gives_room", "does_not_touch"),
        ("kv_cache_allocation", "gives_room", "gives_room"),
        ("profile_warmup", "does_not_touch", "does_not_touch"),
    ):
        found = by_id(alternatives(card(), "RTX 4090", failed=phase))
        assert (found[less].relation, found[more].relation) == (of_less, of_more), phase


def test_what_a_rule_refuses_comes_last_and_is_no_way_out(card):
    answer = alternatives(card(), "T4")
    refused = [one for one in answer.found.alternatives if one.refused]
    assert {one.change.id for one in refused} == {"weights.format: fp8", "weights.format: fp8_block"}
    assert answer.found.alternatives[-2:] == tuple(refused)
    assert "vllm.docs.v0.11.2.fp8" in str(refused[0].refused[0])


def test_a_division_that_the_model_cannot_take_is_refused_by_name(card):
    answer = alternatives(card(model="Qwen--Qwen2.5-0.5B"), "L4")
    refused = {one.change.id: str(one.refused[0]) for one in answer.found.alternatives if one.after is None}
    assert "14 attention heads" in refused["placement.tensor_parallel: 4; placement.gpus: 4"]


def test_sizes_go_down_to_the_requirement_and_no_further(card):
    lines = SERVED.replace("max_num_seqs: 64", "max-num-seqs: 64, max_model_len: 32768, max_num_batched_tokens: 8192")
    found = by_id(alternatives(card(lines), "RTX 4090"))
    budget = {name for name, one in found.items() if one.change.kind == "engine_budget"}
    assert "engine.options.max_model_len: 16384" in budget
    assert "engine.options.max-num-seqs: 8" in budget
    tokens = {int(name.rpartition(" ")[2]) for name in budget if "batched" in name}
    assert tokens == {4096, 2048, 1024, 512}
    (line,) = found["engine.options.max-num-seqs: 8"].change.settings
    assert (line.before, line.after) == (64, 8)


def test_v0_prefills_no_less_than_its_longest_sequence(card):
    lines = SERVED.replace("0.11.2", "0.6.3").replace("max_num_seqs: 64", "max_model_len: 16384")
    names = by_id(alternatives(card(lines), "A100 80GB"))
    assert not [name for name in names if "max_num_batched_tokens" in name]
    told = by_id(alternatives(card(SERVED.replace("max_num_seqs: 64", "enable_chunked_prefill: false")), "A100 80GB"))
    assert not [name for name in told if "max_num_batched_tokens" in name]


def measured(**scope):
    base = {
        "model": "Qwen--Qwen3-8B", "task": "inference", "weight_format": "bf16", "kv_format": "bf16", "engine": "vllm",
        "engine_version": "0.11.2", "gpu": "l40s", "gpus": 1, "tokens": 16384, "concurrency": 8,
        "configuration": "engine.gpu_memory_utilization=0.9; engine.max_num_seqs=64",
    }  # fmt: skip
    record = Record(
        kind="measurement",
        version="1",
        date=datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC),
        method="measure",
        subject=(Subject(name="run"),),
        scope=Scope(**(base | scope)),
        claims=(Claim(quantity="outcome", value="completed"),),
    )
    return seal(record)


def test_records_that_no_longer_count_are_named(card, tmp_path):
    here, elsewhere = measured(), measured(gpu="l4")
    for record in (here, elsewhere):
        write_record(record, tmp_path)
    found = by_id(alternatives(card(), "L40S", evidence=tmp_path))
    lost = {part.subject: part for part in found["weights.format: nf4"].invalidates}
    assert lost["measurements"].records == (here.id,)
    assert lost["quality"].fields == ("weight_format",)
    assert "combination" in lost["compatibility"].fields
    other_gpu = {part.subject: part for part in found["capacity: A100 PCIe 80GB"].invalidates}
    assert set(other_gpu) == {"compatibility", "measurements"}
    assert other_gpu["measurements"].records == (here.id,)
    eager = {part.subject: part.fields for part in found["engine.options.enforce_eager: true"].invalidates}
    assert eager == {"quality": ("configuration",), "measurements": ("configuration",)}


def test_offers_are_the_other_gpus(examples, card):
    offers = [examples / "offers" / "market.yaml"]
    listed = {one.id: one for one in read_offers(offers)}
    current = next(one for one in listed.values() if one.gpu.candidates == ("l4",) or "4090" in one.gpu.name_raw)
    answer = alternatives(card(), offer=current.id, offers=offers)
    others = [one.change.gpu for one in answer.found.alternatives if one.change.gpu is not None]
    assert answer.scene.gpu.offers == (current.id,)
    for gpu in others:
        assert gpu.offers
        assert set(gpu.offers) <= set(listed)
        assert gpu.capacity.smallest_usable_bytes > answer.scene.gpu.capacity.smallest_usable_bytes
    assert all(one.gpus_in_all <= current.gpus for one in answer.found.alternatives if one.change.kind == "placement")


def test_json_is_one_document(capienza, card):
    run = capienza("alternatives", card(), "--gpu", "RTX 4090", "--failed", "decode", "--json")
    data = json.loads(run.out)
    assert (run.code, run.err, data["schema"]) == (0, "", "capienza.alternatives/1")
    assert data["requirement"]["tokens_required"] == 16384
    assert data["failed_is_computed"] is True
    kinds = {one["kind"] for one in data["alternatives"]} | {one["kind"] for one in data["not_offered"]}
    assert kinds == {
        "capacity", "weight_format", "kv_type", "microbatch", "checkpointing", "optimizer", "attention", "loss",
        "offload", "placement", "engine_budget", "allocator",
        "method", "adapters", "evaluation", "export",
    }  # fmt: skip
    first = data["alternatives"][0]
    assert first["card_lines"] == [f"{each['path']}: {each['after']}" for each in first["settings"]]
    for one in data["alternatives"]:
        assert {"after", "effects", "invalidates", "refused"} <= set(one)
        for effect in one["effects"]:
            assert (effect["difference_bytes"] is None) == bool(effect["unknown"])


def test_the_page_says_what_is_unknown_and_what_is_not_shown(capienza, card):
    run = capienza("alternatives", card(), "--gpu", "RTX 4090", "--failed", "prefill")
    assert "engine.options.kv_cache_dtype: fp8 (now not stated)" in run.out
    assert "25.56 GiB (-9.00 GiB)" in run.out
    assert "does not touch it" in run.out
    assert "what lies unused between the allocator's blocks" in run.out
    assert "changes that alter nothing in the prediction: " in run.out
    assert "and 6 more" in run.out
    page = capienza("alternatives", card(), "--gpu", "RTX 4090", "--format", "md").out
    assert page.startswith("# serving: alternatives to RTX 4090 x 1")


def test_italian(capienza, card):
    out = capienza("alternatives", card(), "--gpu", "RTX 4090", "--lang", "it", "--failed", "prefill").out
    assert "25,56 GiB (-9,00 GiB)" in out
    assert "does not touch" not in out
    assert "Exactly" not in out


def test_nothing_named_is_said_so(capienza, card):
    run = capienza("alternatives", card())
    assert run.code == 0
    assert "no GPU named" in run.out
    assert "no GPU is named, so none is another one" in run.out


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--gpu", "RTX 4090", "--failed", "prefil"], 2, "Did you mean prefill?"),
        (["--gpu", "RTX 4090", "--failed", " "], 2, "there is no phase"),
        (["--gpu", "RTX 9999x"], 3, "no GPU named"),
        (["--gpu", "L4x0"], 2, "expected a GPU name"),
        (["--gpu", "L4", "--offer", "a"], 2, "both say where the card runs"),
        (["--offer", "a"], 2, "no file of offers is given"),
        (["--gpu", "L4", "--evidence", "/nowhere"], 4, "no folder of records"),
        (["--gpu", "L4", "--offers", "/nowhere.yaml"], 4, "nowhere.yaml"),
    ],
)
def test_what_a_person_gets_wrong(capienza, card, arguments, code, text):
    run = capienza("alternatives", card(), *arguments)
    assert (run.code, run.out) == (code, "")
    assert text in run.err
    assert "Traceback" not in run.err


def test_more_gpus_than_a_copy_needs_are_at_hand_and_fewer_are_refused(capienza, card):
    two = SERVED.replace("{gpus: 1}", "{gpus: 2, tensor_parallel: 2}")
    refused = capienza("alternatives", card(two), "--gpu", "L4x1")
    assert (refused.code, refused.out) == (2, "")
    assert "the card places a copy on 2" in refused.err
    for gpu, most in (("L4x2", 2), ("L4x4", 4)):
        run = capienza("alternatives", card(), "--gpu", gpu)
        assert run.code == 0
        assert "alternatives to L4 x 1" in run.out
        assert f"tensor_parallel: {most}" in run.out
        assert f"tensor_parallel: {most * 2}" not in run.out


def test_an_offer_that_is_not_there(capienza, card, examples):
    run = capienza("alternatives", card(), "--offer", "gone", "--offers", examples / "offers" / "market.yaml")
    assert (run.code, run.out) == (2, "")
    assert "no offer has the id gone" in run.err


def test_a_phase_that_the_workload_has_not(capienza, card):
    run = capienza("alternatives", card(), "--gpu", "L4", "--failed", "backward")
    assert run.code == 0
    assert "No entry of this workload lives in phase backward" in run.out
    italian = capienza("alternatives", card(), "--gpu", "L4", "--failed", "backward", "--lang", "it")
    assert "Nessuna voce di questo carico vive nella fase backward" in italian.out
    data = json.loads(capienza("alternatives", card(), "--gpu", "L4", "--failed", "backward", "--json").out)
    assert data["failed_is_computed"] is False
    assert {one["relation_to_failed"] for one in data["alternatives"]} == {None}


@pytest.mark.parametrize("gpu", ["A100 3g.40gb", "L4", "MI300X"])
@pytest.mark.parametrize(
    ("lines", "task"),
    [
        ("", "inference"),
        ("", "fine-tuning"),
        ("tokens: {required: 4096}", "inference"),
        ("placement: none\nhost: none\nquality: none", "inference"),
        ("engine: {name: mlc, version: '1'}\ntokens: {required: 4096}\nconcurrency: 2", "inference"),
        ("engine: {name: vllm, options: {quantization: awq, weird_gpu: 1}}", "inference"),
        ("microbatch: 1000000\naccumulation: 1000000", "fine-tuning"),
        ("microbatch: 4\naccumulation: 3\nplacement: {gpus: 2, data_parallel: 2}", "fine-tuning"),
        ("allocator: 'max_split_size_mb:128'\ntokens: {required: 4096}\nconcurrency: 2", "inference"),
    ],
)
def test_any_card_gets_an_answer_or_a_sentence(capienza, card, lines, task, gpu):
    run = capienza("alternatives", card(lines, task, "Qwen--Qwen2.5-0.5B"), "--gpu", gpu, "--json")
    assert run.code in (0, 2, 3), run.err
    assert "Traceback" not in run.err
    if run.code == 0:
        data = json.loads(run.out)
        assert data["alternatives"] or data["not_offered"]


def test_the_allocator_keeps_what_is_set_beside(card):
    lines = SERVED + "\nallocator: 'max_split_size_mb:128,expandable_segments:False'"
    found = by_id(alternatives(card(lines), "L40S"))
    assert "allocator: max_split_size_mb:128,expandable_segments:True" in found
    lines = SERVED + "\nallocator: 'expandable_segments:True'"
    answer = alternatives(card(lines), "L40S")
    assert "allocator" not in {one.change.kind for one in answer.found.alternatives}
    assert "allocator" in {one.kind for one in answer.found.not_offered}


def test_a_bare_number_of_parameters_takes_fewer_bits(examples):
    found = by_id(alternatives(examples / "cards" / "plain-7b.yaml", "L4"))
    eight = found["model.bits: 8"]
    assert eight.known_bytes == -7_000_000_000
    assert {part.subject for part in eight.invalidates} == {"quality", "compatibility", "measurements"}


def test_offload_moves_what_the_card_lacks(card):
    answer = alternatives(card(), "RTX 4090")
    (one,) = [each for each in answer.found.alternatives if each.change.kind == "offload"]
    (line,) = one.change.settings
    assert (line.after - 1) * GIB < answer.scene.shortfall_bytes <= line.after * GIB
    assert (one.difference_bytes, one.known_bytes, one.after.word) == (None, 0, None)
    assert {effect.after for effect in one.effects} == {None}


def test_the_word_of_diagnose_for_an_update_is_taken():
    from capienza.api.alternating import phase_named
    from capienza.ledger.phase import Phase

    assert phase_named("optimizer_step") == Phase.OPTIMIZER_STEP_FIRST


@pytest.mark.parametrize(
    ("name", "phase"), [("validation", "eval"), ("Save", "checkpoint"), ("optimizer-step", "optimizer_step_first")]
)
def test_a_phase_may_be_called_as_programs_call_it(card, name, phase):
    path = card(TRAINED, "fine-tuning", "meta-llama--Llama-3.1-8B")
    assert alternatives(path, "L4", failed=name).found == alternatives(path, "L4", failed=phase).found


def test_an_engines_share_of_the_card_asks_for_no_new_quality_result(card):
    found = by_id(alternatives(card(), "RTX 4090"))
    subjects = {name: {one.subject for one in alternative.invalidates} for name, alternative in found.items()}
    shares = [seen for name, seen in subjects.items() if "gpu_memory_utilization" in name or "max_num_seqs" in name]
    formats = [seen for name, seen in subjects.items() if "kv_cache_dtype" in name]
    assert len(shares) > 3
    assert all(seen == {"measurements"} for seen in shares)
    assert formats
    assert all("quality" in seen for seen in formats)
