"""Forms of evidence: what each becomes, every problem at once with its place, and what no form may say."""

from __future__ import annotations

import datetime
import hashlib
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.errors import TEMPLATES, CapienzaError, InputError, InputErrors, UnreachableError, VerificationError
from capienza.evidence.claims import author, has_reason
from capienza.evidence.rank import DOCUMENTS, MEASURED, MEASURED_HERE, rank
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.store import seal, write_record
from capienza.records.classes import CLASSES, class_of
from capienza.records.load import load_record, record_from
from capienza.records.remarks import remarks
from capienza.records.templates import form_template

HEAD = "evidence: 1\ndate: 2026-11-30T12:00Z\n"


@pytest.fixture
def given_form(tmp_path):
    """The record of a form."""

    def load(text, head=HEAD):
        path = tmp_path / "form.yaml"
        path.write_text(head + text)
        return load_record(path).record

    return load


def problems(load, text, head=HEAD):
    with pytest.raises(InputErrors) as refused:
        load(text, head)
    return [(problem.place.line, problem.place.key, problem.message.code) for problem in refused.value.problems]


@pytest.mark.parametrize("kind", CLASSES)
def test_the_template_of_a_class_is_a_form_of_it(given_form, kind):
    record = given_form(form_template(kind), head="")
    assert (record.kind, class_of(record)) == (CLASSES[kind].kind, kind)
    again = given_form(form_template(kind, lambda text: f"tradotto {text}"), head="")
    assert again.id == record.id


@pytest.mark.parametrize("kind", CLASSES)
def test_the_comments_of_a_template_are_fields_too(given_form, kind):
    """With every # taken away each key is known: what is left to say is only that some exclude each other."""
    lines = form_template(kind).splitlines()[1:]
    text = "\n".join(line.replace("# ", "", 1) if line.lstrip().startswith("#") else line for line in lines)
    said = _said(lambda: given_form(text, head=""))
    unknown = {"card.unknown-key", "card.not-a-mapping", "records.not-of-this-kind", "yamlmarks.syntax"}
    assert not unknown & set(said)


def _said(call):
    """The codes of what a call refuses; empty when it refuses nothing."""
    try:
        call()
    except InputErrors as refused:
        return [problem.message.code for problem in refused.problems]
    except CapienzaError as refused:
        return [refused.message.code]
    return []


def test_a_measurement(given_form):
    record = given_form(
        "kind: measurement\nversion: run 2\n"
        "scope: {model: Qwen/Qwen3-8B, gpu: RTX 4090 24GB, gpus: 1, tokens: 8192, driver: '>=550,<590',\n"
        "        configuration: {engine.enforce_eager: true, engine.gpu_memory_utilization: 0.90}}\n"
        "claims:\n- {quantity: outcome, value: completed}\n"
        "- {quantity: peak_bytes, value: 18 GiB, phase: load, counter: device, gpu: 1}\n"
        "- {quantity: context_bytes, value: 450, unit: MiB}\n"
        "- {quantity: tokens_per_second, value: 41.50 tokens/s}\n- {quantity: truncated_inputs, value: 0}\n"
    )
    assert (record.kind, record.method, record.mode, record.version) == ("measurement", "measure", "manual", "run 2")
    assert record.scope.gpu == "rtx4090"
    assert record.scope.configuration == "engine.enforce_eager=true; engine.gpu_memory_utilization=0.9"
    assert [(claim.quantity, claim.value, claim.unit, claim.gpu_index) for claim in record.claims] == [
        ("outcome", "completed", None, None),
        ("peak_bytes", 18 * 2**30, "B", 1),
        ("context_bytes", 450 * 2**20, "B", None),
        ("tokens_per_second", "41.50", "tokens/s", None),
        ("truncated_inputs", 0, None, None),
    ]
    assert rank(record) == MEASURED


@pytest.mark.parametrize("source", DOCUMENTS)
def test_the_source_of_a_sheet_is_its_rank(given_form, source):
    record = given_form(
        f"kind: commercial_sheet\nsource: {source}\ndocument: {{name: order}}\nscope: {{offer: one}}\n"
        "claims: [{quantity: ram_bytes, value: 64 GiB}]\n"
    )
    assert rank(record, "one") == DOCUMENTS[source]


def test_ranks_of_the_other_classes(given_form):
    page = given_form(
        "kind: software_page\ndocument: {uri: 'https://example.com'}\nscope: {gpu: any, engine: vllm}\n"
        "claims: [{quantity: compatibility, value: satisfied}]\n"
    )
    assert rank(page) == DOCUMENTS["public_page"]
    probe = given_form(
        "kind: environment_probe\nscope: {offer: one}\nclaims: [{quantity: driver_version, value: '580.65'}]\n"
    )
    assert (rank(probe, "one"), rank(probe, "two")) == (MEASURED_HERE, MEASURED)
    ladder = [
        rank(
            given_form(
                f"kind: calculation\nfidelity: {fidelity}\nscope: {{gpu: l4}}\n"
                "claims: [{quantity: peak_bytes, value: 1 GiB, phase: decode, counter: device}]\n"
            )
        )
        for fidelity in ("arithmetic", "analytic", "trace")
    ]
    assert ladder == sorted(set(ladder))
    assert ladder[-1] < min(DOCUMENTS.values())


def test_the_digest_of_a_file_beside_the_form_is_taken(given_form, tmp_path):
    (tmp_path / "order.pdf").write_bytes(b"%PDF")
    (tmp_path / "log.txt").write_bytes(b"log")
    record = given_form(
        "kind: commercial_sheet\nsource: contract\ndocument: {file: order.pdf}\nscope: {offer: one}\n"
        "claims: [{quantity: gpu_link, value: nvlink}]\ninputs: [log.txt]\n"
    )
    assert [(subject.name, subject.sha256) for subject in record.subject] == [
        ("order.pdf", hashlib.sha256(b"%PDF").hexdigest())
    ]
    assert record.inputs == ("sha256:" + hashlib.sha256(b"log").hexdigest(),)


def test_a_document_that_is_not_the_one_written(given_form, tmp_path):
    (tmp_path / "order.pdf").write_bytes(b"%PDF")
    text = (
        "kind: commercial_sheet\nsource: contract\nscope: {offer: one}\n"
        f"document: {{file: order.pdf, sha256: '{'a' * 64}'}}\nclaims: [{{quantity: gpu_link, value: nvlink}}]\n"
    )
    assert problems(given_form, text) == [(6, "document.sha256", "records.file-differs")]
    with pytest.raises(UnreachableError) as missing:
        given_form(text.replace("order.pdf", "order-18.pdf"))
    assert (missing.value.place.line, missing.value.place.key) == (6, "document.file")


def test_days_are_whole_in_their_zone(given_form):
    record = given_form(
        "evidence: 1\nkind: waiver\ndate: 2026-12-01\nexpires: 2026-12-31\ntimezone: Europe/Rome\nauthor: A\n"
        "reason: because\ncriteria: quality\nscope: {model: m}\n",
        head="",
    )
    assert record.date == datetime.datetime(2026, 11, 30, 23, tzinfo=datetime.UTC)
    assert record.expires == datetime.datetime(2026, 12, 31, 23, tzinfo=datetime.UTC)
    assert (author(record), has_reason(record)) == ("A", True)


def test_every_problem_is_said_at_once_with_its_place(given_form):
    found = problems(
        given_form,
        "kind: measurement\nsource: contract\nscop: {gpu: l4}\n"
        "scope: {gpu: A100, tokens: 8k, driver: newest, weight_format: bf17}\n"
        "claims:\n- {quantity: outcome, value: complete}\n- {quantity: peak_byte, value: 3}\n"
        "- {quantity: peak_bytes, value: 18 Gb, phase: decoding}\n- {value: 3}\n- {quantity: pool_tokens, value: -1}\n",
    )
    assert found == [
        (4, "source", "records.not-of-this-kind"),
        (5, "scop", "card.unknown-key"),
        (6, "scope.gpu", "records.gpu-ambiguous"),
        (6, "scope.tokens", "card.not-a-whole-number"),
        (6, "scope.driver", "records.not-a-driver"),
        (6, "scope.weight_format", "formats.weight-format-misspelt"),
        (8, "claims[0].value", "records.claim-not-accepted"),
        (9, "claims[1].quantity", "records.quantity-unlike"),
        (10, "claims[2].quantity", "records.reading-incomplete"),
        (10, "claims[2].value", "records.not-a-size"),
        (10, "claims[2].phase", "card.not-a-choice"),
        (11, "claims[3].quantity", "card.missing"),
        (12, "claims[4].value", "records.negative"),
    ]


@pytest.mark.parametrize(
    "text, missing",
    [
        ("kind: waiver\n", {"author", "reason", "expires", "criteria", "scope"}),
        ("kind: invalidates\n", {"author", "reason", "withdraws"}),
        ("kind: plan\n", {"planned_runs"}),
        ("kind: commercial_sheet\n", {"source", "document", "scope", "claims"}),
    ],
)
def test_what_a_class_needs(given_form, text, missing):
    with pytest.raises(InputErrors) as refused:
        given_form(text)
    assert {problem.message.parameters["key"] for problem in refused.value.problems} == missing


@pytest.mark.parametrize(
    "text, code",
    [
        ("evidence: 2\nkind: plan\nplanned_runs: 2\ndate: 2026-11-30T12:00Z\n", "records.unknown-version"),
        ("evidence: 1\nkind: plan\nplanned_runs: 2\ndate: 2026-11-30\n", "records.date-without-zone"),
        ("evidence: 1\nkind: plan\nplanned_runs: 2\ndate: 2026-11-30T12:00\n", "card.date-time-without-offset"),
        (
            "evidence: 1\nkind: plan\nplanned_runs: 2\ndate: 2026-11-30T12:00Z\nexpires: 2026-11-30T13:00+01:00\n",
            "records.expires-before-its-date",
        ),
        (
            "evidence: 1\nkind: plan\nplanned_runs: 2\ndate: 2026-11-30\ntimezone: UTC\nexpires: 2026-11-29\n",
            "records.expires-before-its-date",
        ),
        (
            "evidence: 1\nkind: plan\nplanned_runs: 2\ndate: 2026-11-30T12:00Z\ndocument: {}\n",
            "records.document-without-anything",
        ),
        ("evidence: 1\nkind: plan\nplanned_runs: 2\ndate: 2026-11-30T12:00Z\ninputs: {}\n", "records.not-words"),
        ("[1, 2]\n", "records.not-a-form"),
        ("evidence: 1\nkind: plann\n", "card.not-a-choice"),
    ],
)  # fmt: skip
def test_other_refusals(given_form, text, code):
    assert code in [found for _, _, found in problems(given_form, text, head="")]


def test_a_plan_that_runs_name_by_id(given_form):
    plan = given_form("kind: plan\nplanned_runs: 3\nscope: {model: m}\n")
    run = given_form(
        f"kind: measurement\nscope: {{model: m}}\nclaims: [{{quantity: outcome, value: failed}}]\ninputs: [{plan.id}]\n"
    )
    assert run.inputs == (plan.id,)


def test_json_is_a_form_too(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(
        json.dumps({"evidence": 1, "kind": "plan", "date": "2026-11-30T12:00Z", "planned_runs": 3}, indent=1)
    )
    assert load_record(path).record.kind == "plan"


class TestMadeElsewhere:
    RECORD = seal(
        Record(kind="plan", version="1", date=datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC), notes=("x",))
    )

    def test_a_sealed_record_is_taken_as_it_is(self, tmp_path):
        path = write_record(self.RECORD, tmp_path)
        assert load_record(path).record == self.RECORD

    def test_a_changed_one_does_not_verify(self, tmp_path):
        path = write_record(self.RECORD, tmp_path)
        path.write_text(path.read_text().replace('"x"', '"y"'))
        with pytest.raises(VerificationError):
            load_record(path)

    def test_one_without_an_id_is_sealed(self, tmp_path):
        path = tmp_path / "record.json"
        path.write_text(
            '{"schema": "capienza.record/1", "kind": "plan", "version": "1", "date": "2026-11-30T00:00:00Z", '
            '"notes": ["x"]}'
        )
        assert load_record(path).record == self.RECORD

    @pytest.mark.parametrize("text", ['{"schema": "x"}', '{"schema": 3, "id": []}', '{"schema": NaN}', '{"schema"'])
    def test_anything_else_is_refused(self, tmp_path, text):
        path = tmp_path / "record.json"
        path.write_text(text)
        with pytest.raises(InputError):
            load_record(path)


class TestOptions:
    BASE = {"evidence": "1", "date": "2026-11-30T12:00Z"}

    def test_values_are_read_as_the_field_takes_them(self):
        record = record_from(
            self.BASE
            | {
                "kind": "measurement",
                "version": "2",
                "scope": ["engine_version=0.11", "tokens=8192", "gpu=L4", "revision=1234567890"],
                "claims": ["outcome=completed", "pool_tokens=9000", "context_bytes=450 MiB"],
            }
        )
        assert (record.scope.engine_version, record.scope.tokens, record.scope.gpu) == ("0.11", 8192, "l4")
        assert [claim.value for claim in record.claims] == ["completed", 9000, 450 * 2**20]

    @pytest.mark.parametrize(
        "given, key",
        [
            ({"kind": "measurement", "scope": ["gpu"]}, "scope"),
            ({"kind": "measurement", "scope": ["gpu=l4", "gpu=t4"]}, "scope"),
            ({"kind": "measurement", "scope": ["gpus=" + "9" * 50]}, "scope.gpus"),
            ({"kind": "measurement", "scope": ["gpu=l4"], "claims": ["outcome=done"]}, "claims[0].value"),
            ({"kind": "measurement", "scope": ["colour=red"], "claims": ["outcome=failed"]}, "scope.colour"),
        ],
    )
    def test_problems_name_the_key(self, given, key):
        with pytest.raises(InputError) as refused:
            record_from(self.BASE | given)
        assert refused.value.place.key == key
        assert refused.value.place.line is None


TEXTS = st.text(max_size=12) | st.integers() | st.none() | st.booleans() | st.floats()


@settings(max_examples=400)
@given(
    st.recursive(
        st.dictionaries(st.sampled_from(["evidence", "kind", "date", "scope", "claims", "value", "gpu", "x"]), TEXTS)
        | TEXTS,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["kind", "scope", "claims", "inputs", "document", "criteria"]), inner)
        ),
        max_leaves=12,
    )
)
def test_whatever_is_given_ends_in_a_record_or_a_sentence(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("forms") / "form.yaml"
    path.write_text(json.dumps(value))
    assert all(code in TEMPLATES for code in _said(lambda: load_record(path)))


SHEET = "kind: commercial_sheet\nsource: public_page\ndocument: {name: rates}\n"


@pytest.mark.parametrize(
    "quantity, value, amount",
    [
        ("exchange_rate", "1.16 EUR/USD", ("1.16", "EUR/USD")),
        ("exchange_rate", "1.16, unit: EUR/USD", ("1.16", "EUR/USD")),
        ("tokens_per_second", "480 tokens/s", ("480", "tokens/s")),
        ("duration_hours", "5.5 h", ("5.5", "h")),
        ("duration_hours", "5.5, unit: h", ("5.5", "h")),
        ("exchange_rate", "1.16", None),
        ("exchange_rate", "EUR/USD", None),
        ("exchange_rate", "0 EUR/USD", None),
        ("exchange_rate", "-1 EUR/USD", None),
        ("exchange_rate", "1.16 euro", None),
        ("exchange_rate", "1.16 EUR/USD, unit: EUR/USD", None),
        ("tokens_per_second", "480 tokens", None),
        ("tokens_per_second", "true", None),
        ("duration_hours", "90 min", None),
    ],
)
def test_an_amount_has_the_unit_of_its_quantity(given_form, quantity, value, amount):
    text = SHEET + f"scope: {{offer: any}}\nclaims: [{{quantity: {quantity}, value: {value}}}]\n"
    if amount is None:
        assert _said(lambda: given_form(text)) == ["records.not-an-amount"]
    else:
        (claim,) = given_form(text).claims
        assert (str(claim.value), claim.unit) == amount


def test_an_option_may_state_a_rate():
    record = record_from(
        {
            "evidence": "1",
            "kind": "commercial_sheet",
            "source": "public_page",
            "date": "2026-11-30T12:00Z",
            "document": {"name": "rates"},
            "claims": ["exchange_rate=1.16 EUR/USD"],
        }
    )
    assert (record.claims[0].value, record.claims[0].unit) == ("1.16", "EUR/USD")


def test_a_rate_needs_no_scope_and_anything_beside_it_does(given_form):
    rate = "{quantity: exchange_rate, value: 1.16 EUR/USD}"
    assert given_form(SHEET + f"claims: [{rate}]\n").scope == Scope()
    both = SHEET + f"claims: [{rate}, {{quantity: ram_bytes, value: 8 GiB}}]\n"
    assert _said(lambda: given_form(both)) == ["records.needed"]


def test_an_evaluation_is_not_asked_for_gpus_and_tokens():
    scope = Scope(model="m", revision="r", task="inference", weight_format="bf16", kv_format="bf16", engine="vllm",
                  engine_version="1", configuration="defaults")  # fmt: skip
    now = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)

    def said(kind, scope):
        claims = (Claim(quantity="outcome", value="completed"),)
        record = seal(Record(kind=kind, version="1", date=now, scope=scope, claims=claims))
        return [(one.code, one.parameters["fields"]) for one in remarks(record, (), now)]

    assert said("quality_result", scope) == []
    assert said("quality_result", msgspec.structs.replace(scope, engine=None)) == [
        ("records.scope-left-open", ["engine"])
    ]
    assert said("measurement", scope) == [
        ("records.scope-left-open", ["gpu", "gpus", "tokens", "concurrency / microbatch"])
    ]
