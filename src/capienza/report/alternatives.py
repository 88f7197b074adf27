"""The answer of `alternatives` as a document: one row each, the effect on every phase, and what is not known of it.

GPUs that come out alike share a row: a catalogue has dozens of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from capienza.decide.alternatives.answer import Alternatives
from capienza.decide.alternatives.change import Change, Setting, shown
from capienza.decide.alternatives.effect import PhaseEffect, fit_order
from capienza.decide.alternatives.find import Alternative
from capienza.decide.alternatives.predicted import Pool, Predicted, fullest
from capienza.decide.alternatives.scene import Scene
from capienza.errors import Message
from capienza.i18n.translator import Say, mark
from capienza.ledger.ledger import Total
from capienza.ledger.phase import Phase
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.labels import ENTRY_LABELS, fit_label, label
from capienza.report.messages import sentence
from capienza.report.size import at_least

KIND_LABELS = {
    "capacity": mark("another GPU"),
    "weight_format": mark("weight format"),
    "kv_type": mark("type of keys and values"),
    "microbatch": mark("microbatch"),
    "checkpointing": mark("activation checkpointing"),
    "optimizer": mark("optimizer"),
    "method": mark("method"),
    "adapters": mark("format of the adapters"),
    "attention": mark("attention"),
    "loss": mark("loss"),
    "evaluation": mark("evaluation"),
    "export": mark("export"),
    "offload": mark("offload to the host"),
    "placement": mark("placement"),
    "engine_budget": mark("what the engine takes"),
    "allocator": mark("allocator"),
}
SUBJECT_LABELS = {
    "quality": mark("quality"),
    "compatibility": mark("compatibility"),
    "measurements": mark("measurements"),
}
RELATION_LABELS = {
    "lowers": mark("lowers its peak"),
    "gives_room": mark("gives it room"),
    "unknown": mark("may lower it: not predicted"),
    "does_not_touch": mark("does not touch it"),
    "raises": mark("raises its peak"),
}
LACKING_LABELS = ENTRY_LABELS | {
    "fragmentation": mark("what lies unused between the allocator's blocks"),
    "attention_workspace": mark("workspace of attention"),
    "whole_phase": mark("a phase of which only one of the two predictions has something"),
}
SHOWN_GPUS = 6
DECIMALS = 2


class Row(msgspec.Struct, frozen=True):
    """A row of the tables: one alternative, or the GPUs that come out alike."""

    first: Alternative
    changes: tuple[Change, ...]


def alternatives_document(answer: Alternatives, say: Say) -> Document:
    """Where it stands, what could be changed, and what nobody can say."""
    found = answer.found
    possible = [one for one in found.alternatives if not one.refused]
    rows = _rows(possible)
    blocks: list[Block] = [Heading(_title(answer, say), 1), Paragraph(_now(answer, say))]
    if answer.failed is not None and answer.failed not in answer.scene.now.peaks:
        absent = say(
            "No entry of this workload lives in phase {phase}: nothing can be said to lower it.",
            phase=str(answer.failed),
        )
        blocks.append(Paragraph(absent))
    if rows:
        blocks += [_table(rows, answer, say), _phases(rows, answer.scene.now, say)]
    else:
        blocks.append(Paragraph(say("Nothing that could be changed betters the prediction.")))
    blocks += _unknown(rows, say)
    blocks += _refused([one for one in found.alternatives if one.refused], say)
    blocks += _open_rules(rows, answer.scene.now, say)
    blocks += _lost_records(rows, say)
    blocks += _left_out(answer, say)
    return tuple(blocks)


def _title(answer: Alternatives, say: Say) -> str:
    scene = answer.scene
    where = say("no GPU named") if scene.gpu is None else f"{scene.gpu.name} x {scene.gpus}"
    return say("{card}: alternatives to {where}", card=scene.card.name, where=where)


def _now(answer: Alternatives, say: Say) -> str:
    now = answer.scene.now
    parts = [say("Now: {word}", word=_word(now, say)), say("predicted peak {size}", size=_peak(now.peak, say))]
    parts += _given_back(now.peak, say)
    if now.margin_bytes is not None:
        margin = say.size(now.margin_bytes)
        margin = margin if now.peak.is_complete else say("at most {size}", size=margin)
        parts.append(say("useful margin {size} (usable capacity minus the ceiling of the peak)", size=margin))
    if answer.scene.training is not None:
        parts.append(say("phase {phase} needs most", phase=str(fullest(now))))
    parts += [_pool_text(now.pool, say)] if now.pool else []
    parts += [say("refused by a rule")] if now.refused else []
    stays = say(
        "Exactly one change each; the requirement stays: length, load, effective batch, quality, deadline and cap."
    )
    return f"{'; '.join(parts)}. {stays}"


def _given_back(peak: Total, say: Say) -> list[str]:
    """What of the peak is no need."""
    if not peak.cached_bytes:
        return []
    told = say(
        "expected need {size}: without what the allocator gives back before it fails",
        size=at_least(peak, say.size(peak.need_bytes, DECIMALS), say),
    )
    return [told]


def _word(predicted: Predicted, say: Say) -> str:
    if predicted.word is None:
        return say("no capacity to compare with")
    word = say(fit_label(predicted.word, predicted.peak))
    return f"{word}, {say('excluded by arithmetic')}" if predicted.is_excluded else word


def _pool_text(pool: Pool, say: Say) -> str:
    if pool.is_refused:
        return say("the engine would not start")
    return (
        say("the engine does not hold the load at once")
        if pool.is_covered is False
        else say("the engine holds the load")
    )


def _rows(possible: Iterable[Alternative]) -> list[Row]:
    """The alternatives in their order; a GPU that comes out like another stands in the row of the first."""
    rows: list[Row] = []
    alike: dict[object, int] = {}
    for one in possible:
        key = _outcome(one) if one.change.gpu is not None else None
        if key is not None and key in alike:
            row = rows[alike[key]]
            rows[alike[key]] = Row(row.first, (*row.changes, one.change))
            continue
        if key is not None:
            alike[key] = len(rows)
        rows.append(Row(one, (one.change,)))
    return rows


def _outcome(one: Alternative) -> object:
    """What is shown of another GPU."""
    after = one.after
    assert after is not None
    lost = tuple((part.subject, part.fields, part.records) for part in one.invalidates)
    differences = tuple((effect.phase, effect.difference_bytes) for effect in one.effects)
    pool = after.pool and (after.pool.is_refused, after.pool.is_covered)
    return one.relation, fit_order(after), differences, lost, pool, bool(after.doubts)


def _table(rows: list[Row], answer: Alternatives, say: Say) -> Table:
    failed = answer.failed is not None and answer.failed in answer.scene.now.peaks
    is_training = answer.scene.training is not None
    difference = say("difference of the need") if is_training else say("difference")
    columns = ["#", say("change"), say("GPUs"), difference, say("then")]
    columns += [say("phase {phase}", phase=str(answer.failed))] if failed else []
    columns += [say("rules"), say("invalidates")]
    lines = []
    for number, row in enumerate(rows, 1):
        one = row.first
        cells = [
            str(number),
            _changed(row, say),
            say.number(one.gpus_in_all),
            _difference(one.difference_bytes, one.known_bytes, say),
            _then(one, say),
        ]
        cells += [say(RELATION_LABELS[one.relation])] if failed and one.relation else [""] if failed else []
        lines.append((*cells, _rules(one, answer.scene, say), _invalidates(one, say)))
    return Table(
        columns=tuple(columns),
        rows=tuple(lines),
        numeric=(0, 2, 3),
        title=say("Exactly one change each, the best first"),
    )


def _changed(row: Row, say: Say) -> str:
    gpus = [change.gpu for change in row.changes if change.gpu is not None]
    if not gpus:
        return "; ".join(_line(setting, say) for setting in row.first.change.settings)
    names = [_gpu_name(gpu.name, gpu.offers, say) for gpu in gpus]
    more = len(names) - SHOWN_GPUS
    listed = ", ".join(names[:SHOWN_GPUS])
    listed = say("{names} and {count} more", names=listed, count=str(more)) if more > 0 else listed
    return say("{kind}: {reason}", kind=say(KIND_LABELS[row.first.change.kind]), reason=listed)


def _gpu_name(name: str, offers: tuple[str, ...], say: Say) -> str:
    if not offers:
        return name
    more = f" +{len(offers) - 3}" if len(offers) > 3 else ""
    return say("{name} (offers {ids})", name=name, ids=f"{', '.join(offers[:3])}{more}")


def _line(setting: Setting, say: Say) -> str:
    if setting.after is None:
        return say("without {line}", line=f"{setting.path}: {shown(setting.before)}")
    now = say("not stated") if setting.before is None else shown(setting.before)
    return say("{line} (now {value})", line=f"{setting.path}: {shown(setting.after)}", value=now)


def _difference(difference_bytes: int | None, known_bytes: int, say: Say) -> str:
    if difference_bytes is not None:
        return _signed(difference_bytes, say)
    return say("unknown; known part {size}", size=_signed(known_bytes, say)) if known_bytes else say("unknown")


def _signed(amount_bytes: int, say: Say) -> str:
    sign = "+" if amount_bytes > 0 else ""
    return f"{sign}{say.size(amount_bytes, DECIMALS)}"


def _then(one: Alternative, say: Say) -> str:
    after = one.after
    if after is None:
        return ""
    if not after.peaks:
        return say("not predicted")
    return "; ".join((_word(after, say), *([_pool_text(after.pool, say)] if after.pool else [])))


def _rules(one: Alternative, scene: Scene, say: Say) -> str:
    if scene.gpu is None or scene.card.engine is None:
        return say("not asked: no engine, or no GPU, is named")
    return say("open") if one.after is not None and one.after.doubts else say("nothing against it")


def _invalidates(one: Alternative, say: Say) -> str:
    parts = []
    for part in one.invalidates:
        count = say(", records: {count}", count=say.number(len(part.records))) if part.records else ""
        parts.append(f"{say(SUBJECT_LABELS[part.subject])} ({', '.join(part.fields)}{count})")
    return "; ".join(parts) or say("nothing")


def _phases(rows: list[Row], now: Predicted, say: Say) -> Table:
    """Need after each change with its difference, by phase; the first row is the need now.

    Where nothing is cached the need is the peak.
    """
    is_cached = any(total.cached_bytes for one in _all(rows, now) for total in one.peaks.values())
    phases = [phase for phase in Phase if any(phase in one.peaks for one in _all(rows, now))]
    first = ("", say("now"), *(_need(now.peaks.get(phase), say) for phase in phases))
    lines = [first]
    for number, row in enumerate(rows, 1):
        by_phase = {effect.phase: effect for effect in row.first.effects}
        lines.append((str(number), "", *(_effect(by_phase.get(phase), say) for phase in phases)))
    return Table(
        columns=("#", "", *(str(phase) for phase in phases)),
        rows=tuple(lines),
        numeric=tuple(range(2, 2 + len(phases))),
        title=say("Expected need of each phase, per GPU, and its difference")
        if is_cached
        else say("Expected peak of each phase, per GPU, and its difference"),
    )


def _all(rows: list[Row], now: Predicted) -> list[Predicted]:
    return [now, *(row.first.after for row in rows if row.first.after is not None)]


def _peak(total: Total | None, say: Say) -> str:
    return say("not computed") if total is None else at_least(total, say.size(total.amount.expected, DECIMALS), say)


def _need(total: Total | None, say: Say) -> str:
    """What is expected without what an allocator would give back: the counter of which differences are shown."""
    return say("not computed") if total is None else at_least(total, say.size(total.need_bytes, DECIMALS), say)


def _effect(effect: PhaseEffect | None, say: Say) -> str:
    if effect is None or effect.after is None:
        return say("not computed")
    if effect.difference_bytes == 0:
        return "="
    difference = say("unknown") if effect.difference_bytes is None else _signed(effect.difference_bytes, say)
    return f"{_need(effect.after, say)} ({difference})"


def _unknown(rows: list[Row], say: Say) -> list[Block]:
    """The entries that no prediction holds yet, with the rows whose effect is unknown because of them."""
    by_name: dict[str, list[str]] = {}
    for number, row in enumerate(rows, 1):
        for name in dict.fromkeys(name for effect in row.first.effects for name in effect.lacking):
            by_name.setdefault(name, []).append(str(number))
    if not by_name:
        return []
    items = (
        say("{name}: {numbers}", name=say(label(LACKING_LABELS, name)), numbers=", ".join(numbers))
        for name, numbers in by_name.items()
    )
    return [Heading(say("Unknown effect: what is not predicted yet, and for which rows")), Items(tuple(items))]


def _refused(refused: list[Alternative], say: Say) -> list[Block]:
    if not refused:
        return []
    by_reason: dict[Message, list[str]] = {}
    for one in refused:
        for reason in one.refused:
            by_reason.setdefault(reason, []).append(one.change.id)
    items = (f"{'; '.join(ids)}: {sentence(reason, say)}" for reason, ids in by_reason.items())
    return [Heading(say("Refused by a rule, or by the engine itself")), Items(tuple(items))]


def _open_rules(rows: list[Row], now: Predicted, say: Say) -> list[Block]:
    """Rules that leave a change open, each with its rows; those that are open now as well stand first."""
    by_reason: dict[Message, list[str]] = {}
    for number, row in enumerate(rows, 1):
        for reason in row.first.after.doubts if row.first.after else ():
            if reason not in now.doubts:
                by_reason.setdefault(reason, []).append(str(number))
    items = [
        say("now, and where nothing else is said: {reason}", reason=sentence(reason, say)) for reason in now.doubts
    ]
    items += [f"{', '.join(numbers)}: {sentence(reason, say)}" for reason, numbers in by_reason.items()]
    return [Heading(say("Rules that are open")), Items(tuple(items))] if items else []


def _lost_records(rows: list[Row], say: Say) -> list[Block]:
    by_record: dict[str, list[str]] = {}
    for number, row in enumerate(rows, 1):
        for part in row.first.invalidates:
            for record in part.records:
                by_record.setdefault(record, []).append(str(number))
    items = (
        say("record {record}: {numbers}", record=record[:12], numbers=", ".join(numbers))
        for record, numbers in sorted(by_record.items())
    )
    return (
        [Heading(say("Records that no longer count, and after which rows")), Items(tuple(items))] if by_record else []
    )


def _left_out(answer: Alternatives, say: Say) -> list[Block]:
    found = answer.found
    items = [
        say("{kind}: {reason}", kind=say(KIND_LABELS[one.kind]), reason=sentence(one.reason, say))
        for one in found.not_offered
    ]
    if found.unchanged:
        items.append(say("changes that alter nothing in the prediction: {count}", count=say.number(found.unchanged)))
    if found.worse:
        items.append(say("changes that better nothing, and need more: {count}", count=say.number(found.worse)))
    items += [sentence(finding, say) for finding in answer.findings]
    return [Heading(say("Not shown")), Items(tuple(items))] if items else []
