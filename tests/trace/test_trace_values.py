"""Values that a program asks for: true answers where they can be known, stated assumptions where not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
from capienza.trace import predict_peak  # noqa: E402
from capienza.trace.guesses import Guess  # noqa: E402

pytestmark = pytest.mark.oracle


def asked(program: Callable[[], object], **options: object) -> tuple[list[object], tuple[Guess, ...]]:
    """What the program answers, and what was guessed."""
    told: list[object] = []

    def step(_state: object) -> None:
        torch.empty(1, device="cuda")
        answer = program()
        told.extend(answer if isinstance(answer, list) else [answer])

    return told, predict_peak(lambda: None, step, steps=1, device="H100 SXM", **options).guesses


KNOWN = {
    "all ones": lambda: bool(torch.ones(4, 9, dtype=torch.int64, device="cuda").all()),
    "a padded mask": lambda: bool(torch.tensor([[0, 1], [1, 1]]).to("cuda").all()),
    "packed positions": lambda: [
        int((torch.arange(8, device="cuda").diff() != 1).sum()),
        torch.arange(5, device="cuda").tolist(),
    ],
    "in place": lambda: int(torch.zeros(3, dtype=torch.int64, device="cuda").add_(2).sum()),
    "through a view": lambda: _through_a_view(),
    "places": lambda: torch.tensor([0, 1, 0, 1, 1]).to("cuda").nonzero().shape[0],
    "unique": lambda: torch.tensor([3, 3, 4]).to("cuda").unique().tolist(),
    "repeats": lambda: torch.arange(3, device="cuda").repeat_interleave(torch.tensor([1, 2, 3]).to("cuda")).tolist(),
    "a mask as index": lambda: torch.randn(6, 2, device="cuda")[torch.arange(6, device="cuda") > 3].shape[0],
    "a place in a sort": lambda: [
        (torch.randn(5, 8, device="cuda").sort()[1] == 7).nonzero().shape[0],
        (torch.randn(5, 8, device="cuda").argsort(dim=0, stable=True) == 2).nonzero().shape[0],
        (torch.randn(5, 8, device="cuda").sort(0)[1] == 5).nonzero().shape[0],
    ],
    "a list in main memory": lambda: torch.arange(4, device="cuda").view(2, 2).tolist(),
    "selected": lambda: torch.randn(6, device="cuda").masked_select(torch.arange(6, device="cuda") > 1).shape[0],
    "equal": lambda: torch.equal(torch.arange(3), torch.arange(3)),
}
ANSWERS = {
    "all ones": [True],
    "a padded mask": [False],
    "packed positions": [0, [0, 1, 2, 3, 4]],
    "in place": [6],
    "through a view": [5],
    "places": [3],
    "unique": [3, 4],
    "repeats": [0, 1, 1, 2, 2, 2],
    "a mask as index": [2],
    "a place in a sort": [5, 8, 0],
    "a list in main memory": [[0, 1], [2, 3]],
    "selected": [4],
    "equal": [True],
}


def _through_a_view() -> int:
    base = torch.zeros(4, dtype=torch.int64, device="cuda")
    base[1:3] += 2
    base[0] = 1
    return int(base.sum())


@pytest.mark.parametrize("name", KNOWN)
def test_what_can_be_known_is_answered_truly(name: str) -> None:
    told, guesses = asked(KNOWN[name])
    assert told == ANSWERS[name]
    assert guesses == ()


UNKNOWN = {
    "are all finite": (lambda: bool(torch.randn(9, device="cuda").isfinite().all()), True),
    "is any not finite": (lambda: bool(torch.randn(9, device="cuda").isinf().any()), False),
    "not any": (lambda: bool(~torch.randn(9, device="cuda").isinf().any()), True),
    "a number": (lambda: torch.randn(9, device="cuda").sum().item(), 0.0),
    "a token": (lambda: int(torch.randn(9, device="cuda").argmax()), 0),
    "a list of tokens": (lambda: sum(torch.randn(4, 9, device="cuda").argmax(-1).tolist()), 0),
    "an end token": (lambda: bool((torch.isin(torch.randn(2, 9, device="cuda").argmax(-1), 2)).any()), False),
    "equal": (lambda: torch.equal(torch.randn(3, device="cuda"), torch.randn(3, device="cuda")), False),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_nobody_knows_is_assumed_and_told(name: str) -> None:
    program, answer = UNKNOWN[name]
    told, guesses = asked(program)
    assert told == [answer]
    assert len(guesses) == 1
    assert guesses[0].count == 1


def test_a_value_that_chance_wrote_over_is_not_known_through_its_views() -> None:
    def program() -> list[object]:
        base = torch.zeros(4, dtype=torch.int64, device="cuda")
        view = base[:2]
        base.random_(0, 9)
        return [int(view.sum()), int(base.sum())]

    told, guesses = asked(program)
    assert told == [0, 0]
    assert sum(guess.count for guess in guesses) == 2


@pytest.mark.parametrize(("routing", "places"), [("balanced", 64), ("worst", 64)])
def test_a_mask_that_nobody_knows_takes_all_its_places(routing: str, places: int) -> None:
    told, guesses = asked(lambda: (torch.randn(64, device="cuda") > 0).nonzero().shape[0], routing=routing)
    assert told == [places]
    assert "64 of 64" in guesses[0].answer


def test_no_guess_changes_what_is_traced_of_an_all_ones_mask() -> None:
    """transformers drops a mask of ones, and attention then runs without one."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        num_hidden_layers=1,
        hidden_size=64,
        intermediate_size=64,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=64,
    )

    def kernels(mask: Callable[[], torch.Tensor | None]) -> dict[str, int]:
        def build() -> torch.nn.Module:
            with torch.device("cuda"):
                return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)

        def step(model: torch.nn.Module) -> None:
            model(torch.zeros(2, 128, dtype=torch.int64, device="cuda"), attention_mask=mask())

        found = predict_peak(build, step, steps=1, device="A100 80GB SXM")
        assert found.guesses == ()
        return dict(found.kernels)

    ones = kernels(lambda: torch.ones(2, 128, dtype=torch.int64, device="cuda"))
    assert ones == kernels(lambda: None)
    padded = torch.ones(2, 128, dtype=torch.int64)
    padded[0, :9] = 0
    assert kernels(lambda: padded.to("cuda")) != ones


def routed(mask: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], list[object]]:
    """A router of 32 tokens to 2 of 8 experts each, its mask [tokens, 2, 8], and what is asked of it."""

    def program() -> list[object]:
        chosen = torch.randn(32, 8, device="cuda").topk(2, -1)[1]
        places = mask(chosen)
        counts = places.long().sum(dim=tuple(range(places.dim() - 1)))
        return [counts.tolist(), places.bool().select(-1, 3).nonzero().shape[0]]

    return program


MASKS = {
    "one_hot": lambda chosen: torch.nn.functional.one_hot(chosen, num_classes=8),
    "scatter": lambda chosen: torch.zeros(32, 8, device="cuda").scatter(1, chosen, 1),
    "scatter in place": lambda chosen: torch.zeros(32, 8, dtype=torch.int64, device="cuda").scatter_(1, chosen, 1),
}


@pytest.mark.parametrize("name", MASKS)
def test_tokens_are_shared_out_to_experts_evenly(name: str) -> None:
    told, guesses = asked(routed(MASKS[name]))
    assert told == [[8] * 8, 8]
    assert guesses


def test_in_the_worst_case_one_expert_takes_them_all() -> None:
    told, _ = asked(routed(MASKS["one_hot"]), routing="worst")
    assert told == [[64, 0, 0, 0, 0, 0, 0, 0], 64]
