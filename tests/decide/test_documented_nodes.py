"""How many GPUs sit in one node, when a record says it and not the offer: a copy over nodes is no more hidden."""

import pytest
from decide_scenes import SCENES
from decide_world import change, judge, make_document, make_quality, make_run, peaks, run_claims

from capienza.evidence.record import Scope

SCENE = SCENES["stages"]  # four GPUs, two in each stage


def placement(offered, *stated):
    """The verdict with what the offer says, and what each source says."""
    offer = change(SCENE.offer, gpus_per_node=offered)
    records = [
        make_document(
            "gpus_per_node", value, Scope(offer=offer.id), producer={"source": source}, version=f"{source}{value}"
        )
        for source, value in stated
    ]
    run = make_run(SCENE.scopes[0], run_claims(measured=peaks(gpus=4)))
    return judge(SCENE.card, offer, SCENE.sizing, (run, make_quality(), *records)).criterion("placement")


@pytest.mark.parametrize(
    "state, offered, stated",
    [
        ("admissible", 4, ()),
        ("admissible", None, [("contract", 4)]),
        ("admissible", 2, [("contract", 4)]),
        ("admissible", 4, [("catalogue", 2)]),
        ("to_confirm", 2, ()),
        ("to_confirm", None, [("contract", 2)]),
        ("to_confirm", 4, [("contract", 2)]),
        ("to_confirm", 4, [("public_page", 2)]),
        ("to_confirm", None, [("contract", 4), ("invoice", 2)]),
        ("to_confirm", 1, [("public_page", 4)]),
        ("exclude", 4, [("contract", 1)]),
    ],
)
def test_the_highest_document_says_how_many_sit_in_one_node(state, offered, stated):
    assert placement(offered, *stated).state == state
