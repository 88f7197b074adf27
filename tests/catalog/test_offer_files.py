"""The four written forms of an offers file: places, all the problems at once, round trips, the schema."""

from __future__ import annotations

import csv
import datetime
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from offer_files import EXAMPLES, SHARED, flat, placeless, read_path, read_text

from capienza.catalog.forms import FlatFee, FlatOffer, FullOffer
from capienza.catalog.notes import KEPT
from capienza.catalog.read import read_offers
from capienza.catalog.walk import columns_of
from capienza.catalog.write import offer_schema, to_full, write_jsonl
from capienza.errors import InputError, InputErrors, Place, UnreachableError

FULL: dict[str, Any] = {
    "offer_id": "x",
    "provider": "p",
    "gpu": {"name_raw": "L4"},
    "gpus_total": 1,
    "price": {"kind": "per_gpu_hour", "amount": "0.5", "currency": "USD"},
}


def full(**changes: Any) -> dict[str, Any]:
    return FULL | changes


def price(**changes: Any) -> dict[str, Any]:
    return {"price": FULL["price"] | changes}


def lines(*offers: Any) -> str:
    return "".join(f"{offer if isinstance(offer, str) else json.dumps(offer)}\n" for offer in offers)


# --- the shared examples


def shared_examples() -> dict[str, list[dict[str, Any]]]:
    path = SHARED / "offers_examples.json"
    if not path.is_file():
        pytest.skip("the collected sources are not beside this checkout")
    return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def test_the_valid_shared_examples_are_read(tmp_path: Path) -> None:
    valid = shared_examples()["valid"]
    outcome = read_text(tmp_path, "jsonl", lines(*valid))
    assert not outcome.problems
    assert [offer.id for offer in outcome.offers] == [offer["offer_id"] for offer in valid]
    by_id = {offer.id: offer for offer in outcome.offers}
    assert by_id["vast-1x4090-48"].gpu.candidates == ("rtx4090_48mod",)
    assert by_id["pkg-synthetic-1"].gpu.candidates == ("h100_pcie", "h100_sxm")
    assert by_id["capacity-block-shape"].gpu.candidates == ("h100_sxm",)
    assert by_id["capacity-block-shape"].price.usable_hours == Decimal("23.5")
    assert ("mig-synthetic", "figure-without-driver") in outcome.found
    validator = jsonschema.Draft202012Validator(offer_schema())
    for offer in valid:
        validator.validate(offer)


def test_the_invalid_shared_examples_are_refused_by_reader_and_schema(tmp_path: Path) -> None:
    validator = jsonschema.Draft202012Validator(offer_schema())
    for example in shared_examples()["invalid"]:
        outcome = read_text(tmp_path, "jsonl", lines(example["offer"]))
        assert len(outcome.problems) == 1, example["why"]
        assert not validator.is_valid(example["offer"]), example["why"]


# --- places and all the problems at once


def test_yaml_problems_have_their_places(tmp_path: Path) -> None:
    last = flat(id="late", total="'1,0 USD'")
    text = (
        "# two good, two bad\n"
        + flat(id="good")
        + "- id: bad\n  provider: p\n  gpu: L4\n  cards: 0\n  days: 3\n  totl: 4 USD\n  host:\n    ram: 64\n"
        + flat(id="good")
        + last
    )
    outcome = read_text(tmp_path, "yaml", text)
    assert [offer.id for offer in outcome.offers] == ["good"]
    assert outcome.places() == [
        "8:3: totl",
        "6:10: cards",
        "10:10: host.ram",
        "11:8: id",
        f"12:{last.index('1,0')}: total",
    ]
    assert outcome.codes == ["unknown-key-near", "not-count", "not-size", "duplicate-offer", "not-money"]


def test_jsonl_problems_have_their_places(tmp_path: Path) -> None:
    bad = json.dumps(full(offer_id="y", gpus_total=0, price={"kind": "hour", "amount": 0.5}))
    text = lines(full(), bad, full(), "[1,", "{}")
    outcome = read_text(tmp_path, "jsonl", text)
    assert [str(problem.place).rpartition("offers.jsonl:")[2] for problem in outcome.problems] == [
        f"2:{bad.index(': 0') + 3}: gpus_total",
        f"2:{bad.index('hour')}: price.kind",
        f"2:{bad.index('0.5') + 1}: price.amount",
        "3:14: offer_id",
        "4:4",
        "5:1",
        "5:1",
        "5:1",
        "5:1",
    ]


def test_json_list_places_count_over_lines(tmp_path: Path) -> None:
    text = '[\n  {"id": "a", "provider": "p", "gpu": "L4", "cards": 1, "days": 1, "total": "1 USD"},\n\n'
    text += '  {"id": "b", "provider": "p",\n   "gpu": "L4", "cards": 0, "days": 1, "total": "1 USD"}, {"id": "c"}]'
    outcome = read_text(tmp_path, "json", text)
    assert [offer.id for offer in outcome.offers] == ["a"]
    assert outcome.offers[0].place == Place(str(tmp_path / "offers.json"), 2, 3)
    assert outcome.places()[0] == "5:26: cards"
    assert {problem.place.line for problem in outcome.problems[1:]} == {5}
    assert {problem.place.column for problem in outcome.problems[1:]} == {text.splitlines()[4].index('{"id"') + 1}


def test_csv_problems_have_their_places(tmp_path: Path) -> None:
    text = "id,provider,gpu,cards,days,total,document.id\n"
    text += 'a,"p, q",L4,1,3,4 USD,\nb,p,"L4",0,3,4,y\nc,p,L4,1,3\n"d\nd",p,L4,1,3,4 USD,\n=1+1,p,L4,1,3,5 USD,s\n'
    outcome = read_text(tmp_path, "csv", text)
    assert [(offer.id, offer.provider) for offer in outcome.offers] == [("a", "p, q"), ("=1+1", "p")]
    assert [str(problem.place).rpartition("offers.csv:")[2] for problem in outcome.problems] == [
        "3:10: cards",
        "3:14: total",
        "4:1",
        "5:1: id",
    ]


def test_a_big_file_shows_the_first_problems_and_counts_the_rest(tmp_path: Path) -> None:
    for ending, text in (
        ("jsonl", lines(*[full(gpus_total=0)] * 500)),
        ("csv", "id,provider,gpu,cards,days,total\n" + "a,p,L4,0,1,1 USD\n" * 500),
        ("yaml", flat(cards="0") * 500),
    ):
        outcome = read_text(tmp_path, ending, text)
        assert len(outcome.problems) == KEPT + 1
        assert outcome.problems[-1].message.parameters["count"] == 500 - KEPT


def test_findings_are_counted_and_the_first_kept(tmp_path: Path) -> None:
    text = lines(*[full(offer_id=f"o{i}", gpu={"name_raw": "H100"}) for i in range(100)])
    findings = read_text(tmp_path, "jsonl", text).findings
    assert findings.counts == {"catalog.ambiguous-gpu": 100}
    assert [finding.offer for finding in findings.kept] == [f"o{i}" for i in range(KEPT)]
    assert findings.kept[3].place.line == 4
    assert findings.kept[3].place.key == "gpu.name_raw"


# --- JSON


@pytest.mark.parametrize(
    "offer, code",
    [
        (full(**price(amount=0.5)), "not-amount"),
        (full(**price(amount=1)), "not-amount"),
        (full(**price(amount="-1")), "not-amount"),
        (full(**price(amount="1e3")), "not-amount"),
        (full(**price(amount="1,000.00")), "not-amount"),
        (full(**price(currency=None)), "currency-missing"),
        (full(**price(currency="EURO")), "not-currency"),
        (full(**price(kind="total")), "term-missing"),
        (full(**price(kind="total", term_hours=0)), "not-positive"),
        (full(**price(kind="total", term_hours="72")), "not-positive"),
        (full(**price(ends_at="2026-12-01")), "not-a-moment"),
        (full(retrieved_at="2026-12-01T00:00:00"), "not-a-moment"),
        (full(retrieved_at="2026-13-01T00:00:00Z"), "not-a-moment"),
        (full(retrieved_at="9999-12-31T23:59:59-23:59"), "not-a-moment"),
        (full(retrieved_at="2026-11-29T24:00:00Z"), "not-a-moment"),
        (full(gpus_total=True), "not-count"),
        (full(gpus_total=10**9), "not-count"),
        (full(gpus_total=3, lots=2), "lots-do-not-divide"),
        (full(gpu={"name_raw": "L4", "memory_reported_mib": 0}), "not-count"),
        (full(gpu={"name_raw": "L4", "memory_source": "driver"}), "driver-figure-missing"),
        (full(gpu={"name_raw": "L4", "key": "l5"}), "unknown-device-key"),
        (full(gpu={"name_raw": "L4", "key": "h100_sxm"}), "key-contradicts-name"),
        (full(gpu={"name_raw": "L4", "memory_nominal_gb": 24, "memory_nominal": "24 GB"}), "memory-twice"),
        (full(gpu={"name_raw": "L4", "memory": 24}), "unknown-key-near"),
        (full(gpu="L4"), "not-mapping"),
        (full(fees=[{"kind": "ip", "amount": "1", "unit": "once"}], price={"kind": "total", "term_hours": 1}),
         "currency-missing"),
        (full(provider=""), "not-one-line"),
        (full(provider="a\nb"), "not-one-line"),
        (full(provider="a\u001b[2J"), "hidden-character"),
        (full(notes="a\u202eb"), None),
        (full(zzz=None), "unknown-key"),
        (lines(full())[:-2] + ', "offer_id": "z"}', "repeated-key"),
        ('{"offer_id": "x", "offer_id": "y"}', "repeated-key"),
        ('{"a": ' * 40 + "1" + "}" * 40, "too-deep"),
        ('{"a": 1e999}', "json-number"),
        ('{"a": ' + "9" * 5000 + "}", "json-number"),
        ('{"a": NaN}', "json-no-value"),
        ('{"a": 1} x', "json-after-value"),
        ('{"a": 1,}', "json-expected"),
        ('{"a": "\\q"}', "json-text"),
        ('"\\ud800"', "json-text"),
        ("nonsense", "json-no-value"),
        ("[]", "not-mapping"),
        ("null", "not-mapping"),
    ],
)  # fmt: skip
def test_one_json_offer(tmp_path: Path, offer: Any, code: str | None) -> None:
    outcome = read_text(tmp_path, "jsonl", offer if isinstance(offer, str) else json.dumps(offer))
    if code is None:
        assert not outcome.problems
    else:
        assert outcome.codes[0] == code
        assert not outcome.offers
        assert outcome.problems[0].place.line == 1


@pytest.mark.parametrize("text", ["{}", "", "  ", "[", "[1]]", "{", '"x"', "\ufeff", "[1,]"])
def test_a_json_file_that_is_no_list_of_offers(tmp_path: Path, text: str) -> None:
    outcome = read_text(tmp_path, "json", text)
    assert outcome.problems
    assert not outcome.offers


def test_what_follows_a_json_list_is_not_passed_over(tmp_path: Path) -> None:
    for more in ("]", ",", ' {"a": 1}', "x", ', "'):
        outcome = read_text(tmp_path, "json", f"[{json.dumps(full())}]{more}")
        assert outcome.codes == ["json-after-list"]
    assert not read_text(tmp_path, "json", f"[{json.dumps(full())}] \n").problems


# --- CSV


def test_the_full_form_in_csv(tmp_path: Path) -> None:
    text = "offer_id,provider,gpu.name_raw,gpu.candidates,gpus_total,price.kind,price.amount,price.currency\n"
    text += "a,p,H100 80GB,h100_pcie|h100_sxm,8,per_gpu_hour,2.00,USD\nb,p,L4,,1,per_gpu_hour,,\n"
    outcome = read_text(tmp_path, "csv", text)
    assert not outcome.problems
    first, second = outcome.offers
    assert first.gpu.candidates == ("h100_pcie", "h100_sxm")
    assert second.price.money is None
    assert outcome.found == [("b", "price-not-stated")]


@pytest.mark.parametrize(
    "text, code",
    [
        ("id;provider;gpu\na;b;c\n", "wrong-separator"),
        ("id\tprovider\n", "wrong-separator"),
        ("id,provider,gpu,gpu\n", "repeated-column"),
        ("id,provider,crads\n", "unknown-key-near"),
        ("id,provider,fees\n", "list-in-csv"),
        ("id,provider,\n", "unknown-key"),
        ('id,provider\n"a,b\nc,d\n', "not-csv"),
        ('id,provider\n"x"y,z\n', "not-csv"),
        ("id,provider\na\x00,b\n", "hidden-character"),
        ("id,provider\na\x1b[2J,b\n", "hidden-character"),
        ("", "no-offers"),
        ("id,provider,gpu,cards\n", "no-offers"),
        ("id,provider,gpu,cards\n\n,,,\n", "no-offers"),
    ],
)
def test_a_csv_file_that_is_refused(tmp_path: Path, text: str, code: str) -> None:
    outcome = read_text(tmp_path, "csv", text)
    assert outcome.codes[0] == code
    assert not outcome.offers


def test_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    text = "\ufeffid,provider,gpu,cards,days,total\r\na,p,L4,1,1,1 USD\r\n"
    assert [offer.id for offer in read_text(tmp_path, "csv", text).offers] == ["a"]
    assert [offer.id for offer in read_text(tmp_path, "jsonl", "\ufeff" + lines(full()))[0]] == ["x"]
    assert [offer.id for offer in read_text(tmp_path, "yaml", "\ufeff" + flat())[0]] == ["a"]
    assert [offer.id for offer in read_text(tmp_path, "json", "\ufeff[" + lines(full()) + "]")[0]] == ["x"]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "yaml", "json"])
def test_what_is_not_utf8_is_refused(tmp_path: Path, ending: str) -> None:
    outcome = read_text(tmp_path, ending, b"[\xff\xfe]\n")
    assert outcome.codes
    assert not outcome.offers


# --- YAML


def test_the_full_form_and_other_layouts_of_a_list_in_yaml(tmp_path: Path) -> None:
    one = "{offer_id: a, provider: p, gpu: {name_raw: L4}, gpus_total: 1, "
    one += 'price: {kind: per_gpu_hour, amount: "0.5", currency: USD}}'
    block = "id: b\n  provider: p\n  gpu: L4\n  cards: 1\n  days: 1\n  total: 1 USD\n"
    for text in (f"- {one}\n", f"-\n  {one}\n", f"[{one}]\n", f"  - {one}\n", f"---\n# x\n- {one}\n"):
        outcome = read_text(tmp_path, "yaml", text)
        assert [offer.id for offer in outcome.offers] == ["a"], outcome.problems
    outcome = read_text(tmp_path, "yml", f"- {block}\n# between\n\n- {one}\n")
    assert [(offer.id, offer.place.line) for offer in outcome.offers] == [("b", 1), ("a", 10)]


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "offers: []\n", "text\n", "- text\n", "- [a]\n", "- &a {id: x}\n", "- {id: a, id: b}\n",
     "- id: f\n\tprovider: x\n", flat() + "---\n" + flat(id="b"), "- {id: .inf}\n", "[]\n"],
)  # fmt: skip
def test_a_yaml_file_that_is_refused(tmp_path: Path, text: str) -> None:
    assert read_text(tmp_path, "yaml", text).problems


def test_one_broken_item_does_not_hide_the_others(tmp_path: Path) -> None:
    text = flat(id="a") + "- {id: b, provider: [x}\n" + flat(id="c") + flat(id="d", cards="0")
    outcome = read_text(tmp_path, "yaml", text)
    assert [offer.id for offer in outcome.offers] == ["a", "c"]
    assert [problem.place.line for problem in outcome.problems] == [2, 4]


def test_a_long_yaml_list_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "offers.yaml"
    path.write_text("".join(flat(id=f"o{i}") for i in range(30)))
    with pytest.raises(InputErrors) as caught:
        list(read_offers(path, yaml_limit=29))
    assert f"capienza offers import {path} --out offers.jsonl" in caught.value.as_dict()[0]["hint"]
    assert len(list(read_offers(path, yaml_limit=30))) == 30
    assert len(list(read_offers(path, yaml_limit=None))) == 30


# --- files


def test_a_file_that_is_not_there_or_not_known(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError):
        list(read_offers(tmp_path / "none.csv"))
    with pytest.raises(UnreachableError):
        list(read_offers(tmp_path / "none.txt"))
    (tmp_path / "dir.jsonl").mkdir()
    with pytest.raises(UnreachableError):
        list(read_offers(tmp_path / "dir.jsonl"))
    (tmp_path / "offers.xls").touch()
    with pytest.raises(InputError, match=r"\.yaml"):
        list(read_offers(tmp_path / "offers.xls"))


# --- examples, round trips, schema


def test_the_examples_are_read(tmp_path: Path) -> None:
    two = read_path(EXAMPLES / "two-cards.yaml")
    assert [str(offer.price.money) for offer in two.offers] == ["47.14 USD", "55.71 USD"]
    assert not two.found
    market = read_path(EXAMPLES / "market.yaml")
    assert not market.problems
    assert len(market.offers) >= 40
    kinds = {code for _, code in market.found}
    assert kinds >= {"ambiguous-gpu", "price-not-stated", "zero-price", "memory-contradicts-gpu", "unknown-gpu-near"}
    assert len({offer.price.money.currency for offer in market.offers if offer.price.money}) >= 4


def test_the_small_examples_hold_the_offers_of_the_market() -> None:
    market = {offer.id: placeless(offer) for offer in read_path(EXAMPLES / "market.yaml").offers}
    for name in ("small.csv", "small.jsonl"):
        offers = read_path(EXAMPLES / name).offers
        assert len(offers) == 8
        for offer in offers:
            assert placeless(offer) == market[offer.id]


def test_writing_and_reading_gives_the_same_offers(tmp_path: Path) -> None:
    for name in ("market.yaml", "small.csv"):
        offers = read_path(EXAMPLES / name).offers
        path = tmp_path / "out.jsonl"
        assert write_jsonl(offers, path) == len(offers)
        again = read_path(path)
        assert not again.problems
        assert [placeless(offer) for offer in again.offers] == [placeless(offer) for offer in offers]
        validator = jsonschema.Draft202012Validator(offer_schema(), format_checker=jsonschema.FormatChecker())
        for line in path.read_text().splitlines():
            validator.validate(json.loads(line))


def test_a_failed_conversion_leaves_nothing_behind(tmp_path: Path) -> None:
    source = tmp_path / "offers.yaml"
    source.write_text(flat() + flat(id="b", cards="0"))
    target = tmp_path / "out.jsonl"
    target.write_text("before")
    with pytest.raises(InputErrors):
        write_jsonl(read_offers(source), target)
    assert target.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["offers.yaml", "out.jsonl"]


def test_the_schema_is_a_schema_and_has_the_keys_of_the_reader() -> None:
    jsonschema.Draft202012Validator.check_schema(offer_schema())
    keys = offer_schema()["$defs"]["FullOffer"]["properties"]
    assert set(keys) == {name.split(".")[0] for name in columns_of(FullOffer)}
    assert {"lots", "document.id", "price.kind", "gpu.name_raw"} <= set(columns_of(FullOffer))
    assert {"cards", "document.id", "host.ram", "fees"} <= set(columns_of(FlatOffer))


def test_what_the_full_form_of_an_offer_looks_like(tmp_path: Path) -> None:
    offer = read_text(tmp_path, "yaml", flat(lots="2", gpu="RTX 4090", memory="24 GB")).offers[0]
    assert json.loads(msgspec.json.encode(to_full(offer))) == {
        "offer_id": "a",
        "provider": "example",
        "gpu": {"name_raw": "RTX 4090", "candidates": ["rtx4090"], "memory_nominal_gb": 24},
        "lots": 2,
        "gpus_total": 2,
        "price": {"kind": "total", "amount": "47.14", "currency": "USD", "term_hours": 72},
    }


WORDS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=12)
NAMES = st.sampled_from(
    ["RTX 4090", "RTX_4090", "H100", "A100 80GB", "L40S", "MI300X", "HX100", "A100 3g.40gb", "V100"]
)
DATES = st.dates(datetime.date(1999, 1, 1), datetime.date(2100, 1, 1)).map(str)


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


MONEY = st.decimals("0", "99999", places=2).map("{} USD".format)
FLAT: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "id": WORDS.map("o{}".format),
        "provider": WORDS.map("p{}".format),
        "gpu": NAMES,
        "memory": optional(st.sampled_from(["24 GB", "80GB", "48 GiB", "?"])),
        "reported": optional(st.sampled_from(["24564 MiB", "81559 MiB"])),
        "ecc": optional(st.sampled_from(["on", "off"])),
        "lots": st.integers(1, 4),
        "cards": st.integers(1, 8),
        "nodes": optional(st.just(1)),
        "days": optional(st.integers(1, 30) | st.decimals("0.1", "9", places=1).map(float)),
        "total": optional(MONEY),
        "hourly": optional(MONEY),
        "per": optional(st.sampled_from(["gpu", "node", "offer"])),
        "starts": optional(DATES),
        "interruptible": optional(st.booleans()),
        "tax_percent": optional(st.integers(0, 100)),
        "country": optional(st.sampled_from(["IT", "DE", "xx"])),
        "document": optional(
            st.fixed_dictionaries({"id": WORDS.map("d{}".format), "version": st.just("v1"), "retrieved": DATES})
        ),
        "host": optional(
            st.fixed_dictionaries({"ram": st.sampled_from(["64 GiB", "0 GiB"]), "disk": st.just("1.5 TB")})
        ),
        "notes": optional(WORDS.map("n{}".format)),
    }
).map(lambda offer: {key: value for key, value in offer.items() if value is not None})


def as_csv(offer: dict[str, Any]) -> str:
    cells = {
        name: str(value)
        for key, inner in offer.items()
        for name, value in (
            ((f"{key}.{k}", v) for k, v in inner.items()) if isinstance(inner, dict) else [(key, inner)]
        )
    }
    out = io.StringIO()
    writer = csv.DictWriter(out, cells)
    writer.writeheader()
    writer.writerow(cells)
    return out.getvalue()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(offer=FLAT)
def test_the_forms_agree_and_survive_a_round_trip(tmp_path: Path, offer: dict[str, Any]) -> None:
    text = json.dumps(offer, ensure_ascii=False)
    outcomes = [
        read_text(tmp_path, "yaml", f"- {text}\n"),
        read_text(tmp_path, "jsonl", text),
        read_text(tmp_path, "json", f"[{text}]"),
        read_text(tmp_path, "csv", as_csv(offer)),
    ]
    first = outcomes[0]
    assert len(first.offers) == (0 if first.problems else 1)
    for other in outcomes[1:]:
        assert other.codes == first.codes
        assert other.found == first.found
        assert [placeless(read) for read in other.offers] == [placeless(read) for read in first.offers]
    for read in first.offers:
        write_jsonl([read], tmp_path / "again.jsonl")
        again = read_path(tmp_path / "again.jsonl")
        assert [placeless(written) for written in again.offers] == [placeless(read)]


def test_the_written_list_of_columns_is_the_one_of_the_reader() -> None:
    page = (EXAMPLES.parents[1] / "docs" / "reference" / "offers.md").read_text(encoding="utf-8")
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    fees = [f"fees.{field.encode_name}" for field in msgspec.structs.fields(FlatFee)]
    assert sorted(listed) == sorted([*columns_of(FlatOffer), *fees])
