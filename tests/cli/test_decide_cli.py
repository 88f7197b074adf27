"""`decide` on the command line: exit codes, the document, one cell explained, and hostile names made inert."""

import json

import pytest

TWO = "two-cards.yaml"


def test_the_two_offer_illustration(capienza, examples):
    shown = capienza("decide", examples / "cards" / "plain-7b.yaml", "--offers", examples / "offers" / TWO)
    assert shown.code == 10
    assert "Offers: 2. Selected: 0, to confirm: 2, excluded: 0." in shown.out
    assert "47.14 USD" in shown.out
    assert "55.71 USD" in shown.out
    assert shown.err == ""


def test_json_has_every_offer_with_its_six_criteria(capienza, examples):
    files = ("--offers", examples / "offers" / TWO, "--json")
    document = json.loads(capienza("decide", examples / "cards" / "plain-7b.yaml", *files).out)
    assert document["schema"] == "capienza.decide/1"
    assert document["counts"] == {"admissible": 0, "to_confirm": 2, "exclude": 0}
    for decision in document["decisions"]:
        names = [row["criterion"] for row in decision["criteria"]]
        assert names == ["workload", "compatibility", "memory", "quality", "placement", "budget"]
        for row in decision["criteria"]:
            assert row["reasons"]
            assert row["settle"]


def test_without_offers_the_catalogue_is_the_candidate_list(capienza, examples):
    from capienza.catalog.devices import load_devices

    document = json.loads(capienza("decide", examples / "cards" / "llama-3.1-8b.yaml", "--json").out)
    assert [decision["offer"] for decision in document["decisions"]] == list(load_devices())
    states = {decision["offer"]: decision["state"] for decision in document["decisions"]}
    assert states["rtx4060"] == "exclude"
    assert states["h100_sxm"] == "to_confirm"


def test_everything_excluded_has_its_own_exit_code(capienza, examples, tmp_path):
    offers = tmp_path / "small.yaml"
    offers.write_text("- {id: a, provider: p, gpu: RTX 4060, cards: 1, days: 1, total: 5 USD}\n")
    shown = capienza("decide", examples / "cards" / "llama-3.1-8b.yaml", "--offers", offers)
    assert shown.code == 11
    assert "at least 18.96 GiB" in shown.out


def test_one_cell_can_be_followed_to_its_evidence(capienza, examples):
    card, offers = examples / "cards" / "llama-3.1-8b.yaml", examples / "offers" / "market.yaml"
    shown = capienza("decide", card, "--offers", offers, "--why", "pay-t4", "memory")
    assert shown.code == 10
    assert "calculation" in shown.out
    document = json.loads(capienza("decide", card, "--offers", offers, "--why", "pay-t4", "memory", "--json").out)
    assert (document["state"], document["criterion"]) == ("exclude", "memory")
    assert len(document["evidence"][0]["sha256"]) == 64


@pytest.mark.parametrize(
    "arguments, code, text",
    [
        (("--why", "nobody", "memory"), 2, "nobody"),
        (("--why", "pay-t4", "price"), 2, "workload, compatibility"),
        (("--evidence", "no-such-folder"), 4, "no-such-folder"),
        (("--offers", "no-such-file.yaml"), 4, "no-such-file.yaml"),
        (("--offers", "offers.txt"), (3, 4), "offers.txt"),
    ],
)
def test_calls_that_cannot_work_say_why(capienza, examples, arguments, code, text):
    card, offers = examples / "cards" / "llama-3.1-8b.yaml", examples / "offers" / "market.yaml"
    shown = capienza("decide", card, "--offers", offers, *arguments)
    assert shown.code in (code if isinstance(code, tuple) else (code,))
    assert text in shown.err


def test_a_yaml_file_of_many_offers_is_refused_with_the_command_that_converts_it(capienza, examples, tmp_path):
    many = tmp_path / "many.yaml"
    line = "- {{id: o{0}, provider: p, gpu: L4, cards: 1, days: 1, total: 5 USD}}\n"
    many.write_text("".join(line.format(number) for number in range(20_001)))
    shown = capienza("decide", examples / "cards" / "llama-3.1-8b.yaml", "--offers", many)
    assert shown.code == 3
    assert "capienza offers import" in shown.err
    out = tmp_path / "many.jsonl"
    assert capienza("offers", "import", many, "--out", out).code == 0
    assert out.read_bytes().count(b"\n") == 20_001


def test_names_from_files_are_inert(capienza, examples, tmp_path):
    offers = tmp_path / "odd.jsonl"
    name = "<script>alert(1)</script> | [x](y) *b*"
    offers.write_text(
        json.dumps({"id": name, "provider": "=1+1", "gpu": "L4", "cards": 1, "days": 1, "total": "5 USD"})
    )
    shown = capienza("decide", examples / "cards" / "llama-3.1-8b.yaml", "--offers", offers, "--format", "md")
    assert shown.code == 10
    assert "<script>" not in shown.out
    assert "\\<script\\>" in shown.out


def test_many_rows_are_cut_aloud(capienza, examples, tmp_path):
    offers = tmp_path / "many.csv"
    rows = "".join(f"o{number},p,L4,1,1,5 USD\n" for number in range(60))
    offers.write_text("id,provider,gpu,cards,days,total\n" + rows)
    shown = capienza("decide", examples / "cards" / "llama-3.1-8b.yaml", "--offers", offers)
    assert "Not shown here: 20 more; --json has all of them." in shown.out


def test_an_unstated_placement_is_not_held_against_an_offer_of_several_cards(capienza, examples, tmp_path):
    offers = tmp_path / "offers.yaml"
    line = "- {{id: x{0}, provider: p, gpu: H100 SXM, memory: 80 GB, cards: {0}, days: 1, total: 5 USD}}\n"
    offers.write_text("".join(line.format(cards) for cards in (1, 8)))
    card = tmp_path / "card.yaml"
    model = examples / "configs" / "meta-llama--Llama-3.3-70B-Instruct"
    card.write_text(f"capienza: 1\nname: big\nmodel: {{path: {model}}}\ntask: inference\n")
    decided = json.loads(capienza("decide", card, "--offers", offers, "--json").out)["decisions"]
    states = [[row["state"] for row in one["criteria"] if row["criterion"] == "memory"] for one in decided]
    assert states == [["exclude"], ["to_confirm"]]
    card.write_text(card.read_text() + "placement: {gpus: 1}\n")
    decided = json.loads(capienza("decide", card, "--offers", offers, "--json").out)["decisions"]
    assert [one["state"] for one in decided] == ["exclude", "exclude"]


def test_an_offer_of_very_many_cards_costs_no_more(capienza, examples, tmp_path):
    offers = tmp_path / "offers.yaml"
    offers.write_text("- {id: a, provider: p, gpu: L4, cards: 100000, days: 1, total: 5 USD}\n")
    assert capienza("decide", examples / "cards" / "llama-3.1-8b.yaml", "--offers", offers).code == 10


MODEL = "meta-llama--Llama-3.1-8B"


def memory_of(capienza, examples, tmp_path, gpu, body):
    card, offers = tmp_path / "card.yaml", tmp_path / "offers.yaml"
    card.write_text(
        f"capienza: 1\nname: x\nmodel: {{path: {examples / 'configs' / MODEL}}}\n{body}placement: {{gpus: 1}}\n"
    )
    offers.write_text(f"- {{id: a, provider: p, gpu: {gpu}, cards: 1, days: 1, total: 5 USD}}\n")
    shown = capienza("decide", card, "--offers", offers, "--json")
    (decision,) = json.loads(shown.out)["decisions"]
    (row,) = [row for row in decision["criteria"] if row["criterion"] == "memory"]
    return row["state"], {reason["code"] for reason in row["reasons"]}


SERVE = "task: inference\ntokens: {required: 4096}\nconcurrency: 1\nengine: {name: x, options: {%s}}\n"


@pytest.mark.parametrize(
    "body",
    [
        SERVE % "cpu_offload_gb: 20",
        SERVE % "quantization: fp8",
        SERVE % "load_in_4bit: true",
        SERVE % "n_gpu_layers: 4",
        SERVE % "cache_type_k: q4_0",
        SERVE % "gpu_memory_utilisation: 0.9",
        "task: fine-tuning\ntraining: {method: qlora, rank: 16, optimizer: adamw}\n",
        "task: fine-tuning\ntraining: {method: full, optimizer: adamw, offload: cpu}\n",
    ],
)
def test_nothing_is_proved_from_below_under_an_option_that_is_not_understood(capienza, examples, tmp_path, body):
    state, codes = memory_of(capienza, examples, tmp_path, "RTX 4060", body)
    assert state == "to_confirm"
    assert "predict.options-not-understood" in codes


@pytest.mark.parametrize("option", ["max_model_len: 4096", "gpu-memory-utilization: 0.9", "enforce_eager: true"])
def test_options_that_move_nothing_leave_the_proof_standing(capienza, examples, tmp_path, option):
    state, codes = memory_of(capienza, examples, tmp_path, "RTX 4060", SERVE % option)
    assert (state, codes) == ("exclude", {"decide.memory-floor"})


def test_a_flag_with_dashes_is_the_option_with_underscores(capienza, examples, tmp_path):
    body = "task: inference\ntokens: {required: 131072}\nconcurrency: 1\nengine: {name: vllm, options: {%s: fp8}}\n"
    for name in ("kv_cache_dtype", "kv-cache-dtype"):
        state, _ = memory_of(capienza, examples, tmp_path, "RTX 3090", body % name)
        assert state == "to_confirm"


@pytest.mark.parametrize(
    "reported, state", [("24575 GiB", "to_confirm"), ("8192 MiB", "to_confirm"), ("24220 MiB", "to_confirm")]
)
def test_a_reading_that_no_such_card_gives_neither_admits_nor_excludes(capienza, examples, tmp_path, reported, state):
    gpu = f"RTX 3090, reported: {reported}"
    found, codes = memory_of(capienza, examples, tmp_path, gpu, "task: inference\n")
    assert found == state
    assert "decide.memory-floor" not in codes


def test_on_a_narrow_terminal_names_to_type_again_stay_whole(examples, monkeypatch):
    import io

    from rich.console import Console

    from capienza.api.deciding import decide
    from capienza.cli.output import _show_rich
    from capienza.decide.summary import summarise
    from capienza.i18n.translator import speaker
    from capienza.report.decide import GpuCount, decide_document

    decided = decide(str(examples / "cards" / "llama-3.1-8b.yaml"), (str(examples / "offers" / "market.yaml"),))
    judged = list(decided.judged)
    summary = summarise(decided.card, [one.decision for one in judged])
    gpus = {one.offer.id: GpuCount(one.offer.gpu, one.offer.gpus) for one in judged}
    shown = io.StringIO()
    _show_rich(decide_document(decided, summary, gpus, speaker("en")), Console(file=shown, width=80))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    verdicts = [
        line.split()
        for line in lines[: next(n for n, line in enumerate(lines) if line.startswith("To confirm"))]
        if line.count(" ? ") == 6
    ]
    assert len(verdicts) > 30
    assert {row[0] for row in verdicts} <= set(gpus)
    assert {row[-1] for row in verdicts} == {"incomplete"}


def test_only_a_complete_prediction_is_called_borderline():
    from capienza.ledger.ledger import Total
    from capienza.report.labels import fit_label
    from capienza.units import Range

    whole, holed = Total(Range(50, 60, 91)), Total(Range(50, 60, 91), ("activations",))
    assert [fit_label(word, whole) for word in ("fit", "borderline", "overflow")] == [
        "predicted fit",
        "borderline",
        "predicted overflow",
    ]
    assert [fit_label(word, holed) for word in ("borderline", "overflow")] == ["incomplete", "predicted overflow"]


def test_one_line_asks_for_the_peaks_of_all_phases(capienza, examples, tmp_path):
    card = tmp_path / "card.yaml"
    card.write_text(
        "{capienza: 1, name: x, model: {parameters: 7e9, bits: 16}, task: fine-tuning, placement: {gpus: 1}}"
    )
    shown = capienza("decide", card, "--offers", examples / "offers" / TWO, "--json")
    steps = {
        step["message"]
        for decision in json.loads(shown.out)["decisions"]
        for row in decision["criteria"]
        for step in row["settle"]
        if step["code"] == "predict.proof-measured-phase"
    }
    assert len(steps) == 1
    (step,) = steps
    assert "load, forward, backward, optimizer_step_first, optimizer_step_steady, eval, checkpoint, export" in step


WORKED = """capienza: 1
name: x
model: {parameters: 7e9, bits: 16}
task: inference
budget: {cap: 300 USD}
calendar: {%s, deadline: "2026-12-12T00:00:00+01:00", steps: [{name: run, hours: %s, basis: measured}]}
"""
IN_FORMS = {
    "yaml": "- {id: a, provider: p, gpu: L4, cards: 1, days: 30, total: 5 USD, starts: 2026-12-11,"
    " document: {id: d, retrieved: 2026-11-29}}\n",
    "jsonl": json.dumps(
        {"id": "a", "provider": "p", "gpu": "L4", "cards": 1, "days": 30, "total": "5 USD"}
        | {"starts": "2026-12-11", "document": {"id": "d", "retrieved": "2026-11-29"}}
    )
    + "\n",
    "csv": "id,provider,gpu,cards,days,total,starts,document.id,document.retrieved\n"
    "a,p,L4,1,30,5 USD,2026-12-11,d,2026-11-29\n",
}
IN_FORMS["json"] = f"[{IN_FORMS['jsonl']}]"


@pytest.mark.parametrize("form", IN_FORMS)
@pytest.mark.parametrize(
    "zone, hours, fits",
    [
        ("timezone: Europe/Rome", 24, True),
        ("timezone: Europe/Rome", "24.01", False),
        ("timezone: UTC", 23, True),
        ("timezone: UTC", 24, False),
        ("timezone: America/New_York", 19, False),
        ("", 23, True),
        ("", 24, False),
    ],
)
def test_a_bare_date_of_an_offer_is_a_day_of_the_cards_time_zone(tmp_path, form, zone, hours, fits):
    """Midnight in Rome is an hour before that of Greenwich: whether the deadline holds turns on it."""
    import datetime

    from capienza.api.deciding import decide

    card, offers = tmp_path / "card.yaml", tmp_path / f"offers.{form}"
    card.write_text((WORKED % (zone, hours)).replace("{, ", "{"))
    offers.write_text(IN_FORMS[form])
    decided = decide(card, [offers], now=datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC))
    (one,) = decided.judged
    assert one.decision.criterion("budget").state == ("admissible" if fits else "exclude")
    codes = {finding.message.code for finding in decided.findings.kept}
    assert ("catalog.day-in-utc" in codes) is (zone == "")


@pytest.mark.parametrize("form", [(), ("--json",), ("--format", "md")])
@pytest.mark.parametrize("offers, code", [("{0}{1}", 10), ("{0}", 11)])
def test_asking_why_does_not_change_the_exit_code(capienza, examples, tmp_path, offers, code, form):
    """One offer is excluded in both files; what decides is whether anything is left."""
    small = "- {id: small, provider: p, gpu: RTX 4060, cards: 1, days: 1, total: 5 USD}\n"
    large = "- {id: large, provider: p, gpu: A40, cards: 1, days: 1, total: 5 USD}\n"
    file = tmp_path / "offers.yaml"
    file.write_text(offers.format(small, large))
    call = ("decide", examples / "cards" / "llama-3.1-8b.yaml", "--offers", file, *form)
    assert capienza(*call).code == code
    assert capienza(*call, "--why", "small", "memory").code == code


def test_asking_why_reads_the_offers_to_their_end(capienza, examples, tmp_path):
    file = tmp_path / "offers.yaml"
    file.write_text(
        "- {id: a, provider: p, gpu: A40, cards: 1, days: 1, total: 5 USD}\n"
        "- {id: b, provider: p, gpu: A40, cards: 0}\n"
    )
    shown = capienza("decide", examples / "cards" / "llama-3.1-8b.yaml", "--offers", file, "--why", "a", "memory")
    assert (shown.code, shown.out) == (3, "")
