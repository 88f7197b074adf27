"""The names a card may use for a resident format."""

from __future__ import annotations

import pytest

from capienza.errors import InputError, Place
from capienza.formats.scheme import WEIGHT_FORMATS, scheme_named, stored
from capienza.formats.tensor import Tensor


@pytest.mark.parametrize("name", sorted(WEIGHT_FORMATS))
def test_every_name_makes_a_scheme_that_bears_it(name: str) -> None:
    assert scheme_named(name).name == name


def test_the_grammar() -> None:
    assert sorted(WEIGHT_FORMATS) == sorted(
        [
            "fp32", "bf16", "fp16", "fp8", "fp8_block", "int8", "w8a8", "nf4", "nf4_double", "fp4", "fp4_double",
            *(f"gptq-int{bits}{group}" for bits in (2, 3, 4, 8) for group in ("", "-g32", "-g64", "-g128")),
            *(f"{method}-g{group}" for method in ("awq-int4", "w4a16") for group in (32, 64, 128)),
            "mxfp4", "nvfp4",
        ]
    )  # fmt: skip


@pytest.mark.parametrize("name", ["Q4_K_M", "q8_0", "IQ4_XS", "UD-Q4_K_XL", "iq2_xxs", "TQ1_0", "MXFP4_MOE", "Q4_K"])
def test_gguf_names_point_at_the_file(name: str) -> None:
    with pytest.raises(InputError) as caught:
        scheme_named(name, Place("card.yaml", 5, key="weights.format"))
    assert caught.value.message.code == "formats.weight-format-gguf"
    assert "model.gguf" in caught.value.as_dict()[0]["hint"]
    assert str(caught.value).startswith("card.yaml:5: weights.format: ")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("BF16", "bf16"), ("F16", "fp16"), ("f32", "fp32"), ("float16", "fp16"), ("int4", "gptq-int4-g128"),
        ("nf4-double", "nf4_double"), ("gptq-int4-128", "gptq-int4-g128"),
        ("fp8-block", "fp8_block"), ("MXFP4", "mxfp4"),
    ],
)  # fmt: skip
def test_other_names_suggest_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(InputError) as caught:
        scheme_named(name)
    assert caught.value.message.parameters["suggestion"] == meant
    assert f"did you mean {meant}?" in str(caught.value)


@pytest.mark.parametrize("name", ["", " ", "zzz", "x" * 10000, "int4\n"])
def test_nonsense_is_refused_briefly(name: str) -> None:
    with pytest.raises(InputError, match=r"is not known") as caught:
        scheme_named(name)
    assert len(str(caught.value)) < 200


def test_a_plain_format_converts_everything() -> None:
    for shape, role in (((8, 4), "mlp"), ((8, 4), "embedding"), ((8,), "norm"), ((2, 8, 4), "expert")):
        assert stored("a.weight", shape, role, scheme_named("fp16"), "fp32") == (
            Tensor("a.weight", shape, "fp16", 2 * 8 * (4 if len(shape) > 1 else 1) * (2 if len(shape) == 3 else 1)),
        )


def test_without_a_scheme_the_parameter_is_as_the_model_has_it() -> None:
    assert stored("a.weight", (8, 4), "mlp", None, "bf16") == (Tensor("a.weight", (8, 4), "bf16", 64),)
