"""No causal language model of the installed transformers is passed over in silence."""

from __future__ import annotations

import pytest

from capienza.architecture.registry import model_types

auto = pytest.importorskip("transformers.models.auto.modeling_auto")

pytestmark = pytest.mark.oracle


def test_every_causal_model_type_has_its_family():
    known = set(model_types())
    missing = [name for name in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if name.replace("-", "_") not in known]
    assert missing == []
    assert len(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) >= 196
