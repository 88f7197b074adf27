"""Placement and server: enough GPUs, where they sit, how they are linked, and the machine around them.

Two cards are not one memory space: only the card's placement divides a model, and a division over several GPUs
is computed first and then verified by a run on that many. A property below the need in a document excludes; one
that no document states is to confirm, by name.
"""

from __future__ import annotations

import msgspec

from capienza.card.model import NONE, Card, Host, Placement
from capienza.decide.alike import judged_alike
from capienza.decide.case import Case, gpus_in_all, gpus_per_copy
from capienza.decide.documents import PropertyTexts, judge_property, stated_values
from capienza.decide.need import NOT_STATED
from capienza.decide.runs import not_completed, required_load, runs, settle_by_measuring
from capienza.decide.server import ServerNeed, gpus_of_a_node, known_needs, most_nodes, share
from capienza.decide.verdict import CriterionVerdict, EvidenceRef, Finding, cite
from capienza.decide.weigh import Stance, conclude, for_every_gpu, shorten, weigh
from capienza.errors import Message, phrase, template
from capienza.evidence.claims import OUTCOME
from capienza.evidence.rank import rank
from capienza.evidence.record import Scope
from capienza.truth import Truth

CRITERION = "placement"
LINKS_ENOUGH = {"pcie": ("pcie", "nvlink", "xgmi"), "nvlink": ("nvlink",), "xgmi": ("xgmi",)}
"""Documented links that meet a needed one; any other word must be documented as written."""

NOT_APPLICABLE = template("decide.placement-not-applicable", "the card says {field}: none")
ONE_GPU = template("decide.placement-one-gpu", "one GPU: no link between GPUs is needed")
GPUS_ENOUGH = template("decide.placement-gpus-enough", "GPUs offered: {offered}, needed: {needed}")
GPUS_TOO_FEW = template(
    "decide.placement-gpus-too-few",
    "GPUs offered: {offered}, needed: {needed}",
    "look for an offer with more GPUs; memory of several offers does not join",
)
SPLIT_IN_NODE = template("decide.placement-split-in-node", "GPUs per node: {stated}, needed in one: {needed}")
SPLIT_IMPOSSIBLE = template(
    "decide.placement-split-impossible",
    "GPUs per node: {stated}; the card divides each layer over {needed}, which must sit in one node",
    "look for an offer with at least {needed} GPUs in one node",
)
NODE_UNDOCUMENTED = template(
    "decide.placement-node-undocumented",
    "no document says how many GPUs sit in one node; {needed} are needed",
    "8 GPUs may be 1 x 8 or 8 x 1",
)
ASK_NODE = template(
    "decide.settle-node",
    "have the document state the GPUs in one node (gpus_per_node in the offers file); {needed} or more settles it",
    "ask the seller",
)
ACROSS_NODES = template(
    "decide.placement-across-nodes",
    "one copy needs {copy} GPUs and is divided over nodes; the link between nodes is {link} Gbit/s",
    "a placement over nodes must be verified by a run",
)
ACROSS_NODES_UNKNOWN = template(
    "decide.placement-across-nodes-unknown",
    "one copy needs {copy} GPUs and is divided over nodes; no document states the link between nodes",
    "ask the seller for the link between nodes",
)
VERIFIED = template("decide.placement-verified", "record {record}: the load completed on {gpus} GPUs placed this way")
UNVERIFIED = template(
    "decide.placement-unverified",
    "the division over {gpus} GPUs is computed, not verified",
    "run it and read every GPU",
)

LINK = PropertyTexts(
    template("decide.link-enough", "link between GPUs: {stated} stated, {needed} needed"),
    template(
        "decide.link-below",
        "link between GPUs: {stated} stated, {needed} needed",
        "look for an offer with that link",
    ),
    template("decide.link-undocumented", "no document states the link between GPUs; {needed} is needed", "ask for it"),
    template(
        "decide.settle-link",
        "have the document state the link between GPUs (gpu_link in the offers file): {needed}",
        "ask the seller",
    ),
)
RAM = PropertyTexts(
    template("decide.ram-enough", "RAM: {stated_bytes} stated, {needed_bytes} needed"),
    template("decide.ram-below", "RAM: {stated_bytes} stated, {needed_bytes} needed", "look for a larger server"),
    template("decide.ram-undocumented", "no document states the RAM; {needed_bytes} is needed", "ask for it"),
    template(
        "decide.settle-ram",
        "have the document state the RAM (host.ram in the offers file); {needed_bytes} or more settles it",
        "ask the seller",
    ),
)
STORAGE = PropertyTexts(
    template("decide.storage-enough", "storage: {stated_bytes} stated, {needed_bytes} needed"),
    template(
        "decide.storage-below",
        "storage: {stated_bytes} stated, {needed_bytes} needed",
        "look for a larger disk",
    ),
    template("decide.storage-undocumented", "no document states the storage; {needed_bytes} is needed", "ask for it"),
    template(
        "decide.settle-storage",
        "have the document state the storage (host.disk in the offers file); {needed_bytes} or more settles it",
        "ask the seller",
    ),
)
APPLICATION = PropertyTexts(
    template("decide.application-present", "managed application: {stated} stated, {needed} needed"),
    template(
        "decide.application-other",
        "managed application: {stated} stated, {needed} needed",
        "look for an offer with that application",
    ),
    template(
        "decide.application-undocumented",
        "no document states the managed application; {needed} is needed",
        "an application asked for when ordering is a wish",
    ),
    template(
        "decide.settle-application",
        "have the document state the managed application (host.managed_application in the offers file): {needed}",
        "ask the seller",
    ),
)
NODE = PropertyTexts(SPLIT_IN_NODE, SPLIT_IMPOSSIBLE, NODE_UNDOCUMENTED, ASK_NODE)
LOTS = template(
    "decide.placement-lots",
    "the offer is {lots} lots of {cards}: several lots in one node are nowhere promised",
    "ask the seller which GPUs sit in one node",
)
COMPUTED = template(
    "decide.server-computed",
    "{field}: at least {floor_bytes} is computed, which a smaller server does not hold",
    "capienza size CARD --format md shows what it is made of",
)
RAISED = template(
    "decide.server-raised",
    "{field}: the card states {stated_bytes}, and at least {floor_bytes} is computed; the larger counts",
    "correct {field} in the card",
)
SHARED_OUT = template(
    "decide.server-shared-out",
    "one copy may lie on {nodes} nodes: one of them holds at least that much of {whole_bytes}",
)
STOCK = template("decide.stock", "stock: {stock}, looked up on {date}; a notice that proves nothing")
STOCK_UNDATED = template("decide.stock-undated", "stock: {stock}, with no date; a notice that proves nothing")
STOCK_WORDS = {"available": phrase("available"), "limited": phrase("limited"), "none": phrase("none in stock")}


def judge(case: Case) -> CriterionVerdict:
    """Is every component's place documented and, where the model is divided, verified?"""
    offer = case.offer
    server = (offer.lots, offer.cards, offer.nodes, offer.gpus_per_node, offer.gpu_link, offer.node_link_gbit_s)
    key = (CRITERION, *server, offer.host, offer.stock, offer.stock_checked_at)
    return judged_alike(case, key, _judge)


def _judge(case: Case) -> CriterionVerdict:
    return conclude(CRITERION, [*_placement(case), *_host(case), *_wishes(case)])


def _placement(case: Case) -> list[Finding]:
    placement = case.card.placement
    if placement == NONE:
        return [_left_out("placement")]
    if not isinstance(placement, Placement):
        return [_unstated("placement")]
    findings = [_gpus(case)]
    if gpus_per_copy(case.card) > 1:
        findings += [_node(case, placement), _verified(case)]
    return findings


def _gpus(case: Case) -> Finding:
    """The number of GPUs is the offer itself; that it is offered still takes a document."""
    needed, offered = gpus_in_all(case.card), case.offer.gpus
    if offered < needed:
        reason = GPUS_TOO_FEW(offered=offered, needed=needed)
        evidence = (case.document,) if case.document else (EvidenceRef(id=case.offer.id),)
        return Finding(truth=Truth.FALSE, reasons=(reason,), evidence=evidence)
    if case.document is None:
        problem = (case.document_problem,) if case.document_problem else ()
        return Finding(truth=Truth.UNKNOWN, reasons=problem, settle=problem)
    reason = GPUS_ENOUGH(offered=offered, needed=needed)
    return Finding(truth=Truth.TRUE, reasons=(reason,), evidence=(case.document,))


def _node(case: Case, placement: Placement) -> Finding:
    """Tensor and expert parallel divide every layer, which needs one node; pipeline stages may cross."""
    copy, inside = gpus_per_copy(case.card), max(placement.tensor_parallel, placement.expert_parallel)
    per_node = gpus_of_a_node(case.offer)
    within = judge_property(case, "gpus_per_node", per_node, lambda value: value >= inside, NODE, needed=inside)
    if within.truth is Truth.UNKNOWN and case.offer.lots > 1:
        lots = LOTS(lots=case.offer.lots, cards=case.offer.cards)
        return msgspec.structs.replace(within, reasons=(*within.reasons, lots))
    if within.truth is not Truth.TRUE or _documented_in_node(case, per_node) >= copy:
        return within
    link = case.offer.node_link_gbit_s
    reason = ACROSS_NODES(copy=copy, link=f"{link:f}") if link is not None else ACROSS_NODES_UNKNOWN(copy=copy)
    return Finding(
        truth=Truth.UNKNOWN,
        reasons=(reason,),
        evidence=within.evidence,
        settle=settle_by_measuring(case) if link is not None else (reason,),
    )


def _documented_in_node(case: Case, per_node: int | None) -> int:
    """GPUs in one node as the highest document has it: of several the fewest. It need not be that of the offer."""
    stated = stated_values(case, "gpus_per_node", per_node)
    top = max((one.rank for one in stated if not one.doubts), default=0)
    return min((one.value for one in stated if one.rank >= top and isinstance(one.value, int)), default=0)


def _verified(case: Case) -> Finding:
    """A run on that many GPUs; the same for all offers of the card class."""
    key = "placement-verified"
    if key not in case.shared:
        case.shared[key] = for_every_gpu(case, lambda need: _verified_on(case, need))
    finding: Finding = case.shared[key]
    return finding


def _verified_on(case: Case, need: Scope) -> Finding:
    open_fields = required_load(case)
    reasons: list[Message] = list(open_fields)
    stances = []
    if not open_fields:
        successes, _, reasons = runs(case, need, OUTCOME)
        for record in successes:
            doubts = not_completed(record)
            weak = case.evidence.weak.get(record.id, ())
            if doubts or weak:
                reasons += [doubts] if doubts else weak
                continue
            reason = VERIFIED(record=record.id[:12], gpus=need.gpus)
            stances.append(
                Stance(says="supports", rank=rank(record, need.offer), evidence=cite(record), reasons=(reason,))
            )
    if stances:
        return weigh(stances)
    return Finding(
        truth=Truth.UNKNOWN,
        reasons=(UNVERIFIED(gpus=need.gpus), *shorten(reasons)),
        settle=settle_by_measuring(case),
    )


def _host(case: Case) -> list[Finding]:
    host = case.card.host
    if host == NONE:
        return [_left_out("host")]
    is_stated = isinstance(host, Host)
    server, needs = case.offer.host, known_needs(case.shared, case.card, case.sizing.volumes).by_field
    unstated = None if is_stated else "host"
    sizes = [
        _size(case, needs["host.ram"], "ram_bytes", server.ram_bytes, RAM, unstated),
        _size(case, needs["host.storage"], "disk_bytes", server.disk_bytes, STORAGE, unstated),
    ]
    return [_interconnect(case, host), *sizes, _application(case, host)] if isinstance(host, Host) else sizes


def _wishes(case: Case) -> list[Finding]:
    """What the seller only announces: shown, and never part of the verdict."""
    stock, date = case.offer.stock, case.offer.stock_checked_at
    if stock is None:
        return []
    key = ("stock", stock, date)
    known: list[Finding] | None = case.shared.get(key)
    if known is None:
        word = STOCK_WORDS[stock]
        reason = STOCK_UNDATED(stock=word) if date is None else STOCK(stock=word, date=date.isoformat())
        known = case.shared[key] = [Finding(truth=None, reasons=(reason,))]
    return known


def _interconnect(case: Case, host: Host) -> Finding:
    needed = (host.interconnect or "").strip().casefold()
    if needed == NONE:
        return _left_out("host.interconnect")
    if not needed:
        return _unstated("host.interconnect") if _is_divided(case.card) else Finding(truth=None, reasons=(ONE_GPU(),))
    enough = LINKS_ENOUGH.get(needed, (needed,))
    return judge_property(
        case, "gpu_link", case.offer.gpu_link, lambda value: value.casefold() in enough, LINK, needed=needed
    )


def _is_divided(card: Card) -> bool:
    return gpus_in_all(card) > 1 or not isinstance(card.placement, Placement)


def _size(
    case: Case, need: ServerNeed, quantity: str, offered: int | None, texts: PropertyTexts, unstated: str | None
) -> Finding:
    """Is it documented as needed? Of the need stated and the one computed the larger counts.

    A need that the card does not state (`unstated` names the field to write) can exclude by what is computed.
    """
    if need.stated == NONE:
        return _left_out(need.field)
    nodes = most_nodes(case.card, case.offer) if need.floor_bytes else 1
    least = share(need.floor_bytes, nodes)
    stated = need.stated if isinstance(need.stated, int) else None
    if stated is None and not least:
        return _unstated(unstated or need.field)
    needed = max(stated or 0, least)
    found = judge_property(case, quantity, offered, lambda value: value >= needed, texts, needed_bytes=needed)
    if stated is not None and stated >= least:
        return found
    words = _computed(case, need, least, nodes)
    if stated is not None or found.truth is Truth.FALSE:
        return msgspec.structs.replace(found, reasons=(*found.reasons, *words))
    missing = NOT_STATED(field=unstated or need.field)
    return msgspec.structs.replace(found, truth=Truth.UNKNOWN, reasons=(missing, *words), settle=(missing,))


def _computed(case: Case, need: ServerNeed, least: int, nodes: int) -> tuple[Message, ...]:
    """What is computed of a need, and how much of it one node holds; the same for all offers of a card class."""
    key = ("computed", need.field, nodes)
    known: tuple[Message, ...] | None = case.shared.get(key)
    if known is None:
        stated = need.stated
        told = (
            RAISED(field=need.field, stated_bytes=stated, floor_bytes=least)
            if isinstance(stated, int)
            else COMPUTED(field=need.field, floor_bytes=least)
        )
        spread = (SHARED_OUT(nodes=nodes, whole_bytes=need.floor_bytes),) if nodes > 1 else ()
        known = case.shared[key] = (told, *spread)
    return known


def _application(case: Case, host: Host) -> Finding:
    needed = (host.managed_application or "").strip()
    if needed.casefold() == NONE:
        return _left_out("host.managed_application")
    if not needed:
        return _unstated("host.managed_application")
    return judge_property(
        case,
        "managed_application",
        case.offer.host.managed_application,
        lambda value: value.casefold() == needed.casefold(),
        APPLICATION,
        needed=needed,
    )


def _left_out(field: str) -> Finding:
    return Finding(truth=None, reasons=(NOT_APPLICABLE(field=field),))


def _unstated(field: str) -> Finding:
    reason = NOT_STATED(field=field)
    return Finding(truth=Truth.UNKNOWN, reasons=(reason,), settle=(reason,))
