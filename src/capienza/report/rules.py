"""The rules of compatibility, as a document and as JSON (`capienza.rules/1`)."""

from __future__ import annotations

from typing import Any

from capienza.catalog.outcome import Outcome, needed_text
from capienza.catalog.rule_texts import subject_text
from capienza.catalog.rules import Rule
from capienza.i18n.translator import Say, mark
from capienza.predict.ruled import Ruled, RuledGpu
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.messages import message_data, sentence
from capienza.report.tool import TOOL
from capienza.truth import Truth

RULES_SCHEMA = "capienza.rules/1"
VIOLATION_LABELS = {
    "refused": mark("refused"),
    "no_kernel": mark("no code for it"),
    "slower": mark("slower"),
    "silently_larger": mark("held larger"),
}
MET = mark("met")
NOT_KNOWN = mark("not known")


def rules_data(found: Ruled) -> dict[str, Any]:
    """Every rule with its row, and what it says on each GPU; null is not asked, or not known."""
    asked = found.combination
    return {
        "schema": RULES_SCHEMA,
        "tool": TOOL,
        "engine": None if asked is None else asked.engine,
        "version": None if asked is None else asked.version,
        "rules": [_rule_data(rule) for rule in found.rules],
        "gpus": [
            {
                "gpu": one.traits.name,
                "found": one.traits.found or None,
                "outcomes": [_outcome_data(outcome) for outcome in one.outcomes],
            }
            for one in found.gpus
        ],
    }


def _rule_data(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "software": rule.software,
        "releases": rule.releases or None,
        "subjects": rule.subjects,
        "vendor": rule.vendor or None,
        "needs": needed_text(rule),
        "violation": rule.violation,
        "becomes": rule.becomes or None,
        "source": rule.source,
        "read_on": rule.date,
        "sha256": rule.sha256,
    }


def _outcome_data(outcome: Outcome) -> dict[str, Any]:
    return {
        "rule": None if outcome.rule is None else outcome.rule.id,
        "met": {Truth.TRUE: True, Truth.FALSE: False, Truth.UNKNOWN: None}[outcome.met],
        "is_read_at_this_release": outcome.is_read,
        "excludes": outcome.truth is Truth.FALSE,
        "reason": message_data(outcome.reason),
    }


def rules_document(found: Ruled, say: Say) -> Document:
    """The rules as a table; on a GPU, what each says, and in words what is not simply met."""
    if not found.gpus:
        return (_rules_table(found.rules, say), Paragraph(_legend(say)))
    blocks: list[Block] = []
    for one in found.gpus:
        blocks += _of_gpu(one, say)
    return (*blocks, Paragraph(_legend(say)))


def _legend(say: Say) -> str:
    return say(
        "A rule excludes only at a release that it was read at, and only where it is the engine's own or that of a "
        "library which this release brings; a rule that is met proves nothing by itself."
    )


def _rules_table(rules: tuple[Rule, ...], say: Say) -> Table:
    rows = tuple(
        (
            rule.id,
            _software(rule),
            _subjects(rule, say),
            needed_text(rule),
            say(VIOLATION_LABELS[rule.violation]),
            rule.source,
        )
        for rule in rules
    )
    columns = (say("rule"), say("read in"), say("speaks of"), say("needs"), say("otherwise"), say("source"))
    return Table(columns=columns, rows=rows, whole=(0,))


def _of_gpu(one: RuledGpu, say: Say) -> list[Block]:
    rows = tuple(
        (outcome.rule.id, _software(outcome.rule), _subjects(outcome.rule, say), needed_text(outcome.rule),
         _outcome(outcome, say), say("yes") if outcome.is_read else say("no"))
        for outcome in one.outcomes
        if outcome.rule is not None
    )  # fmt: skip
    columns = (say("rule"), say("read in"), say("speaks of"), say("needs"), say("here"), say("this release"))
    blocks: list[Block] = [
        Heading(f"{one.traits.name} ({one.traits.found or say('unknown')})"),
        Table(columns=columns, rows=rows, whole=(0,)),
    ]
    open_ones = tuple(sentence(outcome.reason, say) for outcome in one.outcomes if outcome.met is not Truth.TRUE)
    return [*blocks, Items(tuple(dict.fromkeys(open_ones)))] if open_ones else blocks


def _software(rule: Rule) -> str:
    return f"{rule.software} {rule.releases}".strip()


def _subjects(rule: Rule, say: Say) -> str:
    return ", ".join(say.message(subject_text(subject)) for subject in rule.subjects)


def _outcome(outcome: Outcome, say: Say) -> str:
    if outcome.met is Truth.TRUE or outcome.rule is None:
        return say(MET)
    return say(NOT_KNOWN) if outcome.met is Truth.UNKNOWN else say(VIOLATION_LABELS[outcome.rule.violation])
