"""`size` on the command line: the figures that the design and the reference table fix, in every form."""

import json

import pytest

GIB = 1024**3


def gib(amount_bytes):
    return round(amount_bytes / GIB, 3)


def entry(document, name):
    (found,) = [e for e in document["entries"] if e["name"] == name and e["gpu"] == "gpu:0"]
    return found


@pytest.mark.parametrize(
    "bits, weights, gib_text, envelope",
    [
        ("32", 28_000_000_000, "26.08 GiB", "32.08 GiB"),
        ("16", 14_000_000_000, "13.04 GiB", "19.04 GiB"),
        ("8", 7_000_000_000, "6.52 GiB", "12.52 GiB"),
        ("4", 3_500_000_000, "3.26 GiB", "9.26 GiB"),
    ],
)
def test_the_plain_calculator_gives_the_table_of_the_design(capienza, bits, weights, gib_text, envelope):
    shown = capienza("size", "--params", "7e9", "--bits", bits, "--reserve", "6 GiB")
    assert shown.code == 0
    for text in (f"{weights:,} B", gib_text, envelope):
        assert text in shown.out
    document = json.loads(capienza("size", "--params", "7e9", "--bits", bits, "--reserve", "6 GiB", "--json").out)
    (row,) = document["rows"]
    assert (row["weights_only_bytes"], row["indicative_envelope_bytes"]) == (weights, weights + 6 * GIB)


# KV cache of one sequence in GiB: closed formula, batch 1. (card, windowed, full, state)
REFERENCE = [
    ("llama-3.1-8b", 4.000, 4.000, None),
    ("deepseek-v3", 2.145, 2.145, None),
    ("gemma-3-27b", 10.406, 62.000, None),
    ("gpt-oss-20b", 3.003, 6.000, None),
    ("qwen3-next-80b", 6.000, 6.000, 0.072),
]


@pytest.mark.parametrize("card, windowed, full, state", REFERENCE)
def test_caches_equal_the_reference_row(capienza, examples, card, windowed, full, state):
    document = json.loads(capienza("size", examples / "cards" / f"{card}.yaml", "--json").out)
    amount = entry(document, "kv_cache")["amount"]
    assert gib(amount["floor_bytes"]) == windowed
    assert gib(amount["ceiling_bytes"]) == full
    if state is not None:
        assert gib(entry(document, "state")["amount"]["expected_bytes"]) == state


def test_weights_and_parameters_are_exact(capienza, examples):
    llama = json.loads(capienza("size", examples / "configs" / "meta-llama--Llama-3.1-8B", "--json").out)
    assert llama["model"]["num_parameters"] == 8_030_261_248
    assert entry(llama, "weights")["amount"]["floor_bytes"] == 16_060_522_496
    assert gib(llama["weights_only"]["expected_bytes"]) == 14.958
    deepseek = json.loads(capienza("size", examples / "configs" / "deepseek-ai--DeepSeek-V3", "--json").out)
    assert deepseek["model"]["num_parameters"] == 671_026_419_200


def test_unknown_entries_are_named_and_make_totals_lower_bounds(capienza, examples):
    shown = capienza("size", examples / "cards" / "llama-3.1-8b.yaml")
    assert "at least 18.958 GiB" in shown.out
    assert "activations: needs" in shown.out
    document = json.loads(capienza("size", examples / "cards" / "llama-3.1-8b.yaml", "--json").out)
    for found in document["entries"]:
        if found["status"] == "unknown":
            assert found["amount"] is None
            assert found["needs"]
            assert found["expected_proof"]["message"]
    assert all(peak["at_least"] for peak in document["peaks"])


def test_a_model_without_required_tokens_has_an_unknown_cache_not_an_empty_one(capienza, examples):
    document = json.loads(capienza("size", examples / "configs" / "Qwen--Qwen3-8B", "--json").out)
    cache = entry(document, "kv_cache")
    assert cache["status"] == "unknown"
    assert "tokens.required" in cache["needs"]


def test_a_training_is_explained_entry_by_entry(capienza, examples):
    card = examples / "cards" / "qlora-llama-3.1-8b.yaml"
    document = json.loads(capienza("size", card, "--json").out)
    unknown = {found["name"] for found in document["entries"] if found["status"] == "unknown"}
    assert unknown == {"context"}
    known = [found for found in document["entries"] if found["status"] != "unknown"]
    assert all(found["formula"] and found["source"] for found in known)
    weights, widened = (entry(document, name)["amount"] for name in ("weights", "widened_weights"))
    assert gib(weights["floor_bytes"]) == 5.311
    assert 7.265 <= gib(weights["expected_bytes"] + widened["expected_bytes"]) <= 7.57
    for name in {found["name"] for found in document["entries"]}:
        assert capienza("size", card, "--explain", name).code == 0


def test_the_counters_of_a_training_are_kept_apart(capienza, examples):
    card = examples / "cards" / "qlora-llama-3.1-8b.yaml"
    found = json.loads(capienza("size", card, "--gpu", "A100 SXM4 80GB", "--json").out)
    for one in found["training"]["counters"]:
        allocated, reserved, device, smallest = (
            one[name]["expected_bytes"] for name in ("allocated", "reserved", "on_device", "smallest")
        )
        assert smallest == allocated <= reserved < device
    origins = found["training"]["recipe"]
    assert {one["field"] for one in origins} >= {"method", "optimizer.run", "adapters.targets", "precision.widens_rest"}
    assert all(one["source"] for one in origins)


def test_explain_shows_formula_values_and_source(capienza, examples):
    shown = capienza("size", examples / "cards" / "gemma-3-27b.yaml", "--explain", "kv_cache")
    assert "52 sliding x 1024 x 8192" in shown.out
    assert "every layer in full: 66571993088 B" in shown.out
    refused = capienza("size", examples / "cards" / "gemma-3-27b.yaml", "--explain", "kv")
    assert refused.code == 2
    assert "weights, kv_cache" in refused.err


def test_the_gpu_asked_for_stands_beside_the_ledger(capienza, examples):
    card = examples / "cards" / "llama-3.1-8b.yaml"
    fit = json.loads(capienza("size", card, "--gpu", "L4", "--json").out)["fit"]
    assert fit["word"] == "borderline"
    assert not fit["is_excluded"]
    small = json.loads(capienza("size", card, "--gpu", "RTX 4060", "--json").out)["fit"]
    assert (small["word"], small["is_excluded"]) == ("overflow", True)
    two = json.loads(capienza("size", card, "--gpu", "H100 SXMx2", "--json").out)
    assert two["gpus"] == ["gpu:0", "gpu:1"]
    weights = entry(two, "weights")["amount"]
    assert (weights["floor_bytes"], weights["ceiling_bytes"]) == (8_030_261_248, 16_060_522_496)


def test_the_sheet_holds_what_a_person_files_beside_an_order(capienza, examples):
    sheet = capienza("size", examples / "cards" / "qwen3-30b-a3b.yaml", "--gpu", "L40S", "--format", "md").out
    for text in (
        "# Sizing sheet",
        "## Conditions",
        "## What would invalidate this sheet",
        "30,532,122,624",
        "configs/Qwen",
    ):
        assert text in sheet


@pytest.mark.parametrize(
    "arguments, code, text",
    [
        (("size",), 2, "--params"),
        (("size", "--params", "seven"), 2, "whole number from 1"),
        (("size", "--params", "7e9", "--bits", "-1"), 2, "--bits"),
        (("size", "--params", "7e9", "--bits", "NaN"), 2, "--bits"),
        (("size", "--params", "7e9", "--reserve", "6"), 2, "such as 6 GiB"),
        (("size", "--params", "7e9", "--tokens", "5"), 2, "--params"),
        (("size", "--reserve", "6 GiB", "x"), 2, "--params"),
        (("size", "x", "--tokens", "0"), 2, "--tokens"),
        (("size", "./nothing-here"), 4, "nothing-here"),
        (("size", "nothing.yaml"), 4, "nothing.yaml"),
        (("sise",), 2, "sise"),
    ],
)
def test_calls_that_cannot_work_say_what_would(capienza, arguments, code, text):
    shown = capienza(*arguments)
    assert shown.code == code
    assert text in shown.err
    assert shown.out == ""
    as_json = capienza(*arguments, "--json")
    assert as_json.code == code
    document = json.loads(as_json.out)
    assert document["schema"] == "capienza.error/1"
    assert not document["ok"]
    assert {"code", "message", "where", "hint", "parameters"} == set(document["errors"][0])


def test_a_card_is_not_changed_from_the_command_line(capienza, examples):
    shown = capienza("size", examples / "cards" / "llama-3.1-8b.yaml", "--tokens", "5")
    assert shown.code == 2
    assert "--tokens" in shown.err


def test_an_unknown_gpu_is_refused_with_the_command_that_lists_them(capienza, examples):
    shown = capienza("size", examples / "cards" / "llama-3.1-8b.yaml", "--gpu", "H1000")
    assert shown.code in (2, 3)
    assert "capienza devices" in shown.err


def test_the_placement_of_the_card_stands_beside_a_gpu_too(capienza, examples, tmp_path):
    card = tmp_path / "card.yaml"
    model = examples / "configs" / "Qwen--Qwen3-30B-A3B"
    card.write_text(f"capienza: 1\nname: x\nmodel: {{path: {model}}}\ntask: inference\nplacement: {{gpus: 2}}\n")
    alone = json.loads(capienza("size", card, "--gpu", "L40S", "--json").out)
    assert alone["gpus"] == ["gpu:0", "gpu:1"]
    assert not alone["fit"]["is_excluded"]
    assert json.loads(capienza("size", card, "--gpu", "L40Sx2", "--json").out) == alone | {
        "fit": alone["fit"] | {"asked": "L40S"}
    }


@pytest.mark.parametrize("placement, stated", [("{gpus: 2}", 2), ("{tensor_parallel: 4}", 4), ("{gpus: 1}", 1)])
@pytest.mark.parametrize("asked", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("written", ["L40Sx{0}", "L40S x {0}", "{0} x L40S"])
def test_another_number_of_gpus_than_the_card_states_is_refused(
    capienza, examples, tmp_path, placement, stated, asked, written
):
    card = tmp_path / "card.yaml"
    model = examples / "configs" / "Qwen--Qwen3-8B"
    card.write_text(f"capienza: 1\nname: x\nmodel: {{path: {model}}}\ntask: inference\nplacement: {placement}\n")
    shown = capienza("size", card, "--gpu", written.format(asked))
    assert shown.code == (0 if asked == stated else 2)
    if asked != stated:
        assert f"--gpu asks for {asked} GPUs, the card places a copy on {stated}" in shown.err


def test_a_new_card_takes_a_folder_as_it_is_written(capienza, examples, monkeypatch):
    monkeypatch.chdir(examples.parent)
    written = capienza("card", "new", "examples/configs/Qwen--Qwen3-8B")
    assert written.code == 0
    assert "path: ./examples/configs/Qwen--Qwen3-8B" in written.out


@pytest.mark.parametrize("copies, sequences", [(1, 16), (4, 4), (3, 6)])
def test_data_parallel_copies_share_the_sequences(capienza, examples, tmp_path, copies, sequences):
    card = tmp_path / "card.yaml"
    model = examples / "configs" / "Qwen--Qwen3-30B-A3B"
    card.write_text(
        f"capienza: 1\nname: x\nmodel: {{path: {model}}}\ntask: inference\ntokens: {{required: 32768}}\n"
        f"concurrency: 16\nplacement: {{gpus: 1, data_parallel: {copies}}}\n"
    )
    cache = entry(json.loads(capienza("size", card, "--json").out), "kv_cache")["amount"]["floor_bytes"]
    # 48 layers, 4 K and V heads of 128, 2 bytes: 98,304 bytes for each token.
    assert cache == sequences * 32768 * 98_304


@pytest.mark.parametrize("path", ["Qwen--Qwen3-8B", "Qwen--Qwen3-8B/config.json"])
def test_the_revision_that_the_card_states_is_shown(capienza, examples, tmp_path, path):
    card = tmp_path / "card.yaml"
    model = f"{{path: {examples / 'configs' / path}, revision: my-own-name}}"
    text = f"capienza: 1\nname: x\nmodel: {model}\ntask: inference\n"
    card.write_text(text)
    assert json.loads(capienza("size", card, "--json").out)["model"]["revision"] == "my-own-name"
    assert "my-own-name" in capienza("size", card, "--format", "md").out
    assert "revision my-own-name" in capienza("size", card).out
    card.write_text(text.replace(", revision: my-own-name", ""))
    assert json.loads(capienza("size", card, "--json").out)["model"]["revision"] is None
    assert "not stated" in capienza("size", card, "--format", "md").out


@pytest.mark.parametrize("form", ["text", "md"])
@pytest.mark.parametrize("gpus", [1, 2, 8])
def test_weights_only_of_several_gpus_is_called_a_share(capienza, examples, tmp_path, form, gpus):
    card = tmp_path / "card.yaml"
    card.write_text(
        f"capienza: 1\nname: x\nmodel: {{path: {examples / 'configs' / 'Qwen--Qwen3-8B'}}}\ntask: inference\n"
        f"reserve: {{amount: 6 GiB, reason: guess}}\nplacement: {{gpus: {gpus}}}\n"
    )
    whole = json.loads(capienza("size", card, "--json").out)["weights_only"]["ceiling_bytes"]
    lines = capienza("size", card, *(("--format", form) if form == "md" else ())).out.splitlines()
    weights, envelope = (next(line for line in lines if name in line) for name in ("weights only", "indicative env"))
    assert f"{whole // gpus:,} B" in weights
    assert (f"at least {whole // gpus:,} B" in weights) is (gpus > 1)
    assert (f"even share over {gpus} GPUs" in weights) is (gpus > 1)
    assert ("at least" in envelope) is (gpus > 1)


@pytest.mark.parametrize("reference", [".", "Qwen--Qwen3-8B", "./Qwen--Qwen3-8B/config.json"])
def test_a_local_model_has_no_revision(capienza, examples, monkeypatch, reference):
    monkeypatch.chdir(examples / "configs")
    shown = capienza("size", reference, "--revision", "main", "--json")
    assert shown.code == 3
    assert "no revision main" in shown.out


@pytest.mark.parametrize("form", ["human", "md", "json"])
def test_the_largest_dimensions_are_shown_in_every_form(capienza, tmp_path, form):
    largest = dict.fromkeys(("hidden_size", "head_dim", "intermediate_size", "vocab_size"), 2**31 - 1)
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 10_000}
    config = {"model_type": "llama", "max_position_embeddings": 1, "torch_dtype": "float64", **largest, **heads}
    (tmp_path / "config.json").write_text(json.dumps(config))
    longest = ("--tokens", 2**31, "--concurrency", 2**31)
    shown = capienza("size", tmp_path, *map(str, longest), "--gpu", "L4", "--format", form)
    assert (shown.code, shown.err) == (0, "")
