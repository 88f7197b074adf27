"""One function for each command; every one takes plain values and returns a frozen result.

    import capienza
    capienza.api.size("card.yaml", gpu="L4").worst_peak()

A function is loaded when it is first asked for. The modules here have other names than the functions, because
an imported module would take the function's place.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capienza.api.alternating import alternatives as alternatives
    from capienza.api.calculator import arithmetic as arithmetic
    from capienza.api.cards import card_check as card_check
    from capienza.api.cards import card_findings as card_findings
    from capienza.api.cards import card_new as card_new
    from capienza.api.cards import card_schema as card_schema
    from capienza.api.catalogue import devices as devices
    from capienza.api.deciding import decide as decide
    from capienza.api.deciding import keep_decision as keep_decision
    from capienza.api.diagnosing import diagnose as diagnose
    from capienza.api.limiting import limits as limits
    from capienza.api.many import decide_many as decide_many
    from capienza.api.measuring import measure as measure
    from capienza.api.offer_files import offers as offers
    from capienza.api.offer_files import offers_check as offers_check
    from capienza.api.offer_files import offers_import as offers_import
    from capienza.api.planning import plan as plan
    from capienza.api.probing import doctor as doctor
    from capienza.api.qualifying import quality_compare as quality_compare
    from capienza.api.qualifying import quality_freeze as quality_freeze
    from capienza.api.qualifying import quality_lint as quality_lint
    from capienza.api.qualifying import quality_run as quality_run
    from capienza.api.recipes import card_recipe as card_recipe
    from capienza.api.recording import evidence_add as evidence_add
    from capienza.api.recording import evidence_export as evidence_export
    from capienza.api.recording import evidence_list as evidence_list
    from capienza.api.recording import evidence_show as evidence_show
    from capienza.api.recording import evidence_verify as evidence_verify
    from capienza.api.replaying import trace_replay as trace_replay
    from capienza.api.ruling import rules as rules
    from capienza.api.signing import decision_document as decision_document
    from capienza.api.sizing import size as size
    from capienza.api.tracing import beside_closed_form as beside_closed_form
    from capienza.api.tracing import trace as trace
    from capienza.api.validating import calibrate as calibrate
    from capienza.api.validating import validate as validate

_HOMES = {
    "alternatives": "alternating",
    "arithmetic": "calculator",
    "beside_closed_form": "tracing",
    "calibrate": "validating",
    "card_check": "cards",
    "card_findings": "cards",
    "card_new": "cards",
    "card_recipe": "recipes",
    "card_schema": "cards",
    "decide": "deciding",
    "decide_many": "many",
    "decision_document": "signing",
    "devices": "catalogue",
    "diagnose": "diagnosing",
    "doctor": "probing",
    "evidence_add": "recording",
    "evidence_export": "recording",
    "evidence_list": "recording",
    "evidence_show": "recording",
    "evidence_verify": "recording",
    "keep_decision": "deciding",
    "limits": "limiting",
    "measure": "measuring",
    "offers": "offer_files",
    "offers_check": "offer_files",
    "offers_import": "offer_files",
    "plan": "planning",
    "quality_compare": "qualifying",
    "quality_freeze": "qualifying",
    "quality_lint": "qualifying",
    "quality_run": "qualifying",
    "rules": "ruling",
    "size": "sizing",
    "trace": "tracing",
    "trace_replay": "replaying",
    "validate": "validating",
}

__all__ = [
    "alternatives",
    "arithmetic",
    "calibrate",
    "card_check",
    "card_findings",
    "card_new",
    "card_recipe",
    "card_schema",
    "decide",
    "decide_many",
    "decision_document",
    "devices",
    "diagnose",
    "doctor",
    "evidence_add",
    "evidence_export",
    "evidence_list",
    "evidence_show",
    "evidence_verify",
    "keep_decision",
    "limits",
    "measure",
    "offers",
    "offers_check",
    "offers_import",
    "plan",
    "rules",
    "size",
    "trace",
    "trace_replay",
    "validate",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'capienza.api' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module(f"capienza.api.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
