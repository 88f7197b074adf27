import pytest

from capienza import errors
from capienza.units import GIB, parse_money

SIZE = errors.Template("test.size", "needs {need_bytes}, found {names}", "ask for {cap}")


def test_a_message_is_data_first_and_prose_last():
    message = SIZE(need_bytes=GIB, names=("a", "b"), cap=parse_money("5 USD"))
    assert message.parameters["need_bytes"] == GIB
    assert str(message) == "needs 1.00 GiB, found a, b"
    assert errors.fill(message.hint, message.parameters) == "ask for 5.00 USD"


@pytest.mark.parametrize(
    "place, shown",
    [
        (errors.Place("card.yaml", 5, 12, "tokens.required"), "card.yaml:5:12: tokens.required"),
        (errors.Place("card.yaml", 5), "card.yaml:5"),
        (errors.Place(key="bits"), "bits"),
        (errors.NOWHERE, ""),
    ],
)
def test_places_read_as_compilers_write_them(place, shown):
    assert str(place) == shown


def test_a_key_of_any_length_is_shown_short():
    shown = str(errors.Place("f", key="k" * 50_000))
    assert len(shown) < 130
    assert "..." in shown


def test_an_error_states_its_place_and_its_one_json_shape():
    error = errors.InputError(SIZE(need_bytes=0, names=(), cap=None), errors.Place("f", 1))
    assert str(error).startswith("f:1: needs 0.00 GiB")
    (row,) = error.as_dict()
    assert set(row) == {"code", "message", "where", "hint", "parameters"}


def test_all_problems_of_a_document_are_kept():
    one = errors.InputError(SIZE(need_bytes=1, names=(), cap=None), errors.Place("f", 1))
    two = errors.InputError(SIZE(need_bytes=2, names=(), cap=None), errors.Place("f", 2))
    both = errors.InputErrors([one, two])
    assert len(both.as_dict()) == 2
    assert str(both).count("\n") == 1


def test_a_code_is_declared_once():
    errors.template("test.once", "x")
    try:
        with pytest.raises(ValueError, match=r"test\.once"):
            errors.template("test.once", "y")
    finally:
        del errors.TEMPLATES["test.once"]


@pytest.mark.parametrize(
    "kind, code",
    [
        (errors.CapienzaError, 1),
        (errors.UsageError, 2),
        (errors.InputError, 3),
        (errors.InputErrors, 3),
        (errors.UnreachableError, 4),
        (errors.MissingPartError, 5),
        (errors.VerificationError, 20),
    ],
)
def test_exit_codes_are_those_of_the_design(kind, code):
    assert kind.exit_code == code
