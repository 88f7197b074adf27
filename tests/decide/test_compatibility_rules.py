"""Rules of the catalogue in a decision: what excludes, what is only a doubt, servers, and probes of an environment."""

from __future__ import annotations

import pytest
from decide_world import (
    GOOD_RECORDS,
    MODEL,
    SCOPE,
    change,
    codes,
    judge,
    make_card,
    make_document,
    make_offer,
    make_quality,
    make_run,
    make_sizing,
    run_claims,
)

from capienza.card.model import Engine
from capienza.catalog.capability import traits_of
from capienza.catalog.offer import GpuClaim, OfferHost
from capienza.catalog.rules import load_rules
from capienza.catalog.selection import ANY_WEIGHTS, Combination
from capienza.decide.ruling import rule_findings
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.store import seal
from capienza.predict.combination import engine_release

OFFER = "rtx4090-1x3d"


def world(gpus=("rtx4090",), engine="vllm", version="0.33.0", subjects=("weights:plain",), host=None, **more):
    """A card, an offer and a sizing of one engine on one GPU name, as `api.deciding` puts them together."""
    claim = GpuClaim(name_raw=gpus[0], candidates=gpus)
    combination = Combination(
        engine=engine,
        version=version,
        release=engine_release(version, engine),
        subjects=frozenset({"start", ANY_WEIGHTS, *subjects}),
    )
    traits = dict(zip(gpus, traits_of(claim), strict=True))
    return {
        "card": make_card(engine=Engine(name=engine, version=version)),
        "offer": make_offer(gpu=claim, host=host or OfferHost(), **more),
        "sizing": make_sizing(rules=rule_findings(combination, traits), combination=combination, traits=traits),
        "records": (),
    }


def verdict(given, *records):
    return judge(**given | {"records": records}).criterion("compatibility")


def scope(given, **more):
    gpu = given["offer"].gpu.candidates[0]
    return change(SCOPE, gpu=gpu, engine_version=given["card"].engine.version, engine=given["card"].engine.name, **more)


def probe(given, version=None, driver="595.71.05", kind="measurement", method="measure", claims=(), **more):
    stated = {"driver_version": driver, f"package.{given['card'].engine.name}": version or "0.33.0"}
    return seal(
        Record(
            kind=kind,
            version="1",
            date=make_run().date,
            method=method,
            scope=Scope(gpu=given["offer"].gpu.candidates[0], **more),
            claims=(
                *(Claim(quantity=name, value=value) for name, value in stated.items() if value is not None),
                *claims,
            ),
        )
    )


class TestRules:
    def test_what_the_engine_refuses_at_this_release_is_excluded_by_the_rule(self):
        row = verdict(world(("v100_16",), subjects=("weights:awq",)))
        assert row.state == "exclude"
        assert set(codes(row.reasons)) == {"catalog.rule-refused", "catalog.rule-no-kernel"}
        cited = {reference.id: reference for reference in row.evidence}
        rule = next(rule for rule in load_rules() if rule.id == "vllm.awq")
        reference = cited["rule vllm.awq"]
        assert (reference.version, reference.sha256, reference.date) == ("0.33", rule.sha256, rule.read_on)
        assert rule.source in reference.scope

    @pytest.mark.parametrize("version", ["0.40.0", "0.30.0", None, "main"])
    def test_a_rule_of_another_release_is_a_doubt(self, version):
        row = verdict(world(("v100_16",), version=version, subjects=("weights:awq",)))
        assert row.state == "to_confirm"
        if version is not None:
            assert "catalog.rule-nearest" in codes(row.reasons)

    def test_rules_that_hold_prove_nothing(self):
        row = verdict(world(subjects=("weights:fp8",)))
        assert (row.state, codes(row.reasons)) == ("to_confirm", ["decide.compatibility-unverified"])

    def test_release_whose_rules_were_not_read_is_said(self):
        row = verdict(world(version="0.25.0"))
        assert "catalog.rules-not-read" in codes(row.reasons)

    def test_slower_is_a_note_beside_an_admissible_verdict(self):
        given = world(("a100_sxm_80",), subjects=("weights:fp8",))
        row = verdict(given, make_run(scope(given)))
        assert row.state == "admissible"
        assert codes(row.reasons) == ["decide.compatibility-verified", "catalog.rule-slower"]

    def test_a_run_that_completed_outweighs_a_rule_and_that_is_listed(self):
        given = world(("t4",), subjects=("kv:fp8",))
        assert verdict(given).state == "exclude"
        row = verdict(given, make_run(scope(given)))
        assert row.state == "admissible"
        assert "decide.overridden" in codes(row.reasons)

    def test_every_gpu_of_an_ambiguous_name_must_come_out_alike(self):
        assert verdict(world(("v100_16", "v100_32"))).state == "exclude"
        row = verdict(world(("v100_16", "a100_sxm_40")))
        assert row.state == "to_confirm"
        assert "decide.gpu-ambiguous" in codes(row.reasons)

    def test_no_waiver_covers_a_refusal(self):
        from decide_world import make_waiver

        given = world(("v100_16",))
        row = verdict(given, make_waiver("compatibility", Scope(model=MODEL, gpu="v100_16")))
        assert row.state == "exclude"
        assert "decide.waiver-refused" in codes(row.reasons)


class TestServers:
    def test_a_driver_below_what_the_engine_brings_is_excluded_on_geforce(self):
        row = verdict(world(host=OfferHost(driver_version="570.26")))
        assert row.state == "exclude"
        assert [reference.id for reference in row.evidence] == ["rtx-4090-sheet"]

    def test_on_a_data_centre_card_a_package_may_lift_it(self):
        row = verdict(world(("h100_sxm",), host=OfferHost(driver_version="570.26")))
        assert row.state == "to_confirm"
        assert "catalog.rule-other-class" in codes(row.reasons)

    @pytest.mark.parametrize("host", [{"driver_version": "595.71.05"}, {"cuda_max": "13.2"}, {"cpu_arch": "x86_64"}])
    def test_a_server_that_has_it_changes_nothing(self, host):
        plain, stated = verdict(world()), verdict(world(host=OfferHost(**host)))
        assert (stated.state, codes(stated.reasons)) == (plain.state, codes(plain.reasons))

    def test_a_sheet_that_contradicts_itself_is_a_conflict(self):
        row = verdict(world(host=OfferHost(driver_version="595.71.05", cuda_max="12.8")))
        assert row.state == "to_confirm"
        assert "decide.conflict" in codes(row.reasons)

    def test_without_a_document_a_driver_is_no_evidence(self):
        row = verdict(world(host=OfferHost(driver_version="570.26"), document=None))
        assert row.state == "to_confirm"
        assert "decide.server-undocumented" in codes(row.reasons)

    def test_a_run_elsewhere_says_nothing_of_this_driver(self):
        given = world(host=OfferHost(driver_version="570.26"))
        assert verdict(given, make_run(scope(given))).state == "exclude"
        row = verdict(given, make_run(scope(given, offer=OFFER)))
        assert row.state == "admissible"
        assert "decide.overridden" in codes(row.reasons)

    def test_aarch64_is_a_doubt_stated_or_of_the_gpu_itself(self):
        for given in (world(("l4",), host=OfferHost(cpu_arch="aarch64")), world(("gh200_96",))):
            row = verdict(given)
            assert row.state == "to_confirm"
            assert "catalog.rule-outside" in codes(row.reasons)

    def test_a_document_about_the_offer_states_its_driver(self):
        given = world()
        old = make_document("driver_version", "570.26", Scope(offer=OFFER), producer={"source": "contract"})
        assert verdict(given, old).state == "exclude"
        new = make_document("driver_version", "595.71.05", Scope(offer=OFFER), producer={"source": "contract"})
        row = verdict(world(host=OfferHost(driver_version="570.26")), new)
        assert row.state == "to_confirm"
        assert "decide.overridden" in codes(row.reasons)

    def test_rocm_of_a_server(self):
        given = world(("mi355x",), version="0.14.1", host=OfferHost(rocm="6.4"))
        assert verdict(given).state == "exclude"
        assert verdict(world(("mi355x",), version="0.14.1", host=OfferHost(rocm="7.0.2"))).state == "to_confirm"


class TestProbes:
    def test_a_probe_of_the_release_on_the_gpu_verifies_it(self):
        given = world()
        record = probe(given)
        row = verdict(given, record)
        assert (row.state, codes(row.reasons)) == ("admissible", ["decide.probe-verifies"])
        assert [reference.id for reference in row.evidence] == [record.id]

    @pytest.mark.parametrize("stated", ["0.33.0", "v0.33.0", "0.33.0+cu130", "0.33"])
    def test_the_release_goes_by_its_numbers(self, stated):
        given = world()
        assert verdict(given, probe(given, stated)).state == "admissible"

    @pytest.mark.parametrize(
        "what, code",
        [
            ({"version": "0.33.1"}, "decide.probe-other-version"),
            ({"version": "0.32.0"}, "decide.probe-other-version"),
            ({"driver": None}, "decide.probe-lacks"),
            ({"driver": "570.26"}, "decide.probe-leaves-open"),
            ({"offer": "another"}, "decide.probe-other-offer"),
            ({"claims": (Claim(quantity="compute_capability", value="8.6"),)}, "decide.probe-other-gpu"),
            ({"inputs": True}, "evidence.reference-missing"),
        ],
    )
    def test_what_leaves_it_open(self, what, code):
        given = world()
        record = probe(given, **{name: value for name, value in what.items() if name != "inputs"})
        if "inputs" in what:
            record = seal(change(record, inputs=("d" * 64,), id="", sha256=""))
        row = verdict(given, record)
        assert row.state == "to_confirm"
        assert code in codes(row.reasons)

    @pytest.mark.parametrize("quantity", ["compute_capability", "gfx_arch"])
    @pytest.mark.parametrize("shown, is_other", [("gfx942", False), ("gfx90a", True)])
    def test_a_gfx_name_is_compared_wherever_it_is_stated(self, quantity, shown, is_other):
        given = world(("mi300x",))
        row = verdict(given, probe(given, claims=(Claim(quantity=quantity, value=shown),)))
        assert ("decide.probe-other-gpu" in codes(row.reasons)) == is_other

    def test_a_driver_too_old_on_this_very_machine_excludes(self):
        given = world()
        row = verdict(given, probe(given, driver="570.26", offer=OFFER))
        assert row.state == "exclude"
        assert codes(row.reasons) == ["decide.probe-fails"]

    def test_a_promise_is_no_probe(self):
        given = world()
        assert verdict(given, probe(given, method="attest")).state == "to_confirm"
        assert verdict(given, probe(given, kind="plan", method="attest")).state == "to_confirm"

    def test_rules_of_another_release_leave_it_open(self):
        given = world(version="0.25.0")
        row = verdict(given, probe(given, "0.25.0"))
        assert row.state == "to_confirm"
        assert "decide.probe-leaves-open" in codes(row.reasons)

    def test_a_violated_rule_is_not_verified_by_what_is_installed(self):
        given = world(("v100_16",))
        assert verdict(given, probe(given)).state == "exclude"

    def test_a_plugin_that_is_there_settles_it(self):
        given = world(subjects=("weights:gguf",))
        assert verdict(given, probe(given)).state == "to_confirm"
        plugin = Claim(quantity="package.vllm-gguf-plugin", value="0.3.0")
        assert verdict(given, probe(given, claims=(plugin,))).state == "admissible"

    def test_what_is_installed_beside_an_aarch64_processor_has_its_wheels(self):
        given = world(("gh200_96",))
        assert verdict(given, probe(given)).state == "admissible"

    def test_a_probe_and_a_failed_run_are_a_conflict(self):
        given = world()
        failed = make_document(scope=scope(given), value="violated")
        broken = make_run(scope(given), (*run_claims("failed"), Claim(quantity="compatibility", value="violated")))
        assert verdict(given, probe(given), broken).state == "to_confirm"
        assert verdict(given, probe(given), failed).state == "admissible"


def test_all_of_a_decision_with_rules_is_one_verdict():
    """Rules change the criterion of compatibility alone."""
    given = world(subjects=("weights:fp8",))
    records = (make_run(scope(given)), make_quality(scope=scope(given)))
    assert judge(**given | {"records": records}).criterion("compatibility").state == "admissible"
    assert GOOD_RECORDS
