"""Settings that only say where memory lies ask for no new quality result; every other one does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.decide.quality_scope import ONLY_MEMORY, for_quality
from capienza.evidence.claims import DEFAULTS, configuration_text
from capienza.evidence.record import Scope

settings = st.dictionaries(
    st.sampled_from(["engine.enforce_eager", "engine.max_model_len", "tensor_parallel"]), st.integers(0, 9)
)
memory = st.dictionaries(st.sampled_from(sorted(ONLY_MEMORY)), st.integers(0, 9))


@given(settings, memory, memory)
def test_what_says_where_memory_lies_makes_no_difference(others, one, other):
    scopes = {for_quality(Scope(configuration=configuration_text(others | some))) for some in (one, other, {})}
    assert scopes == {Scope(configuration=configuration_text(others))}


@pytest.mark.parametrize(
    ("configuration", "kept"),
    [
        (None, None),
        (DEFAULTS, DEFAULTS),
        ("engine.gpu_memory_utilization=0.9", DEFAULTS),
        ("allocator=expandable_segments:True; engine.quantization=fp8", "engine.quantization=fp8"),
        ("engine.max_model_len=8192", "engine.max_model_len=8192"),
        ("any", "any"),
    ],
)
def test_the_rest_of_a_configuration_stays(configuration, kept):
    assert for_quality(Scope(configuration=configuration)).configuration == kept
