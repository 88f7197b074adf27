"""What was executed: lines of engines, the command's own file, sequences in flight, and what a stage makes of them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.card.model import TokenCount
from capienza.measure.stage import Stage, coverage, tried
from capienza.measure.usage import Executed, Sequence, Usage, at_once
from capienza.measure.usage_file import UsageFile


def read(*lines, wanted=1):
    usage = Usage()
    for line in lines:
        usage.line(line)
    return usage.executed(wanted)


@pytest.mark.parametrize(
    "lines, expected",
    [
        (
            ['{"usage": {"prompt_tokens": 512, "total_tokens": 576, "completion_tokens": 64}}'],
            {"tokens": 576, "prompt": 512},
        ),
        (["CompletionUsage(completion_tokens=64, prompt_tokens=512, total_tokens=576)"], {"prompt": 512}),
        (
            [
                "llama_perf_context_print: prompt eval time =  27.63 ms /   600 tokens (    0.05 ms per token)",
                "llama_perf_context_print:        eval time = 121.20 ms /    63 runs   (    1.92 ms per token)",
            ],
            {"prompt": 600, "output": 63, "tokens": 663},
        ),
        (["Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 7 reqs, Waiting: 0 reqs"], {"tokens": None}),
        (["INFO GPU KV cache size: 177,552 tokens"], {"pool_tokens": 177552}),
        (["max_total_num_tokens=441200, chunked_prefill_size=8192"], {"pool_tokens": 441200}),
        (["  Num examples = 1,000", "  Instantaneous batch size per device = 4"], {"samples": 1000, "microbatch": 4}),
        (["  Gradient Accumulation steps = 16"], {"accumulation": 16}),
        (["input truncated, n_ctx_slot = 512, truncated = 1"], {"truncated": 1}),
        (["the prompt was truncated to 4096 tokens", "prompts were truncated"], {"truncated": 2}),
        (["OOM, skipping batch 7"], {"dropped": 1}),
        (["This model's maximum context length is 4096 tokens"], {"dropped": 1}),
        (["truncation=True, max_length=512", "hello"], {"truncated": None, "dropped": None, "samples": None}),
    ],
)
def test_lines_that_are_known(lines, expected):
    found = read(*lines)
    assert {name: getattr(found, name) for name in expected} == expected


def test_the_commands_own_file_speaks_before_its_lines(tmp_path):
    path = tmp_path / "usage.jsonl"
    rows = [
        {"prompt_tokens": 100, "completion_tokens": 10, "truncated": False, "dropped": 0},
        {"prompt_tokens": 200, "completion_tokens": 5, "truncated": True, "dropped": 2},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    usage = Usage()
    usage.line('"prompt_tokens": 9999, "completion_tokens": 1')
    usage.folder(tmp_path)
    found = usage.executed(1)
    assert (found.tokens, found.samples, found.truncated, found.dropped) == (205, 2, 1, 2)


@pytest.mark.parametrize(
    "bad", ["no json", "[]", '{"prompt_tokens": -1}', '{"prompt_tokens": "7"}', "{}", '{"prompt_tokens": 1e30}']
)
def test_a_line_that_is_not_understood_is_said_and_leaves_the_cuts_open(tmp_path, bad):
    path = tmp_path / "usage.jsonl"
    path.write_text('{"prompt_tokens": 8, "truncated": false}\n' + bad + "\n")
    usage = Usage()
    usage.folder(tmp_path)
    assert [note.code for note in usage.notes] == ["measure.usage-not-understood"]
    assert usage.executed(1).truncated is None


def test_all_lines_that_are_not_understood_are_one_finding(tmp_path):
    lines = ['{"prompt_tokens": 8, "truncated": false}', "{bad", *["{}"] * 30]
    (tmp_path / "usage.jsonl").write_text("\n".join(lines) + "\n")
    usage = Usage()
    usage.folder(tmp_path)
    (note,) = usage.notes
    assert note.parameters["count"] == 31
    assert note.parameters["line"] == 2
    assert note.parameters["lines"] == [*map(str, range(2, 22)), "..."]
    assert str(note.parameters["problem"]).startswith("JSON is malformed")


def test_what_the_trainers_callback_saw_counts_where_the_command_says_nothing(tmp_path):
    rows = [
        {"tokens": 512, "microbatch": 4, "accumulation": 8, "samples": 4},
        {"tokens": 384, "microbatch": 4, "accumulation": 8, "samples": 396},
    ]
    for rank in (0, 1):
        (tmp_path / f"usage.{rank}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    usage = Usage()
    usage.line("  Num examples = 9,999")
    usage.folder(tmp_path)
    found = usage.executed(None)
    assert (found.tokens, found.microbatch, found.accumulation, found.samples) == (512, 4, 8, 800)
    assert (found.truncated, found.dropped) == (None, None)
    (tmp_path / "usage.jsonl").write_text('{"tokens": 64, "microbatch": 1, "truncated": false}\n')
    usage = Usage()
    usage.folder(tmp_path)
    found = usage.executed(None)
    assert (found.tokens, found.microbatch, found.samples, found.truncated) == (64, 1, 1, 0)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), max_size=60))
def test_no_batch_is_lost_between_the_callback_and_the_run(batches):
    with tempfile.TemporaryDirectory() as folder:
        written, usage = UsageFile(Path(folder), 0, 2), Usage()
        for tokens, microbatch in batches:
            written.add(tokens, microbatch)
        written.write()
        usage.folder(Path(folder))
        found = usage.executed(None)
    assert found.samples == (sum(microbatch for _, microbatch in batches) or None)
    assert found.tokens == max((tokens for tokens, _ in batches), default=None)
    assert found.microbatch == max((microbatch for _, microbatch in batches), default=None)


def test_a_file_that_is_no_text_is_survived(tmp_path):
    path = tmp_path / "usage.jsonl"
    path.write_bytes(b"\xff\xfe\x00" * 100_000)
    usage = Usage()
    usage.folder(tmp_path)
    assert usage.notes


times = st.integers(0, 12)
sequences = st.lists(
    st.builds(
        lambda prompt, output, start, length: Sequence(
            prompt=prompt, output=output, start=float(start), end=float(start + length)
        ),
        st.integers(1, 20), st.integers(0, 20), times, st.integers(1, 6),
    ),
    min_size=1, max_size=12,
)  # fmt: skip


@given(sequences, st.integers(1, 5))
def test_at_once_is_what_trying_every_moment_finds(found, wanted):
    best = (0, 0)
    for tenth in range(200):
        moment = tenth / 10
        flying = sorted((one.total for one in found if one.start <= moment < one.end), reverse=True)
        count = min(wanted, len(flying))
        if count:
            best = max(best, (count, flying[count - 1]))
    sequence, count = at_once(found, wanted)
    assert (count, sequence.total) == best or (count == 1 and sequence.total == max(one.total for one in found))


@given(sequences, st.integers(1, 5), st.integers(0, 11))
def test_taking_a_sequence_away_never_says_more(found, wanted, place):
    whole, least = at_once(found, wanted), at_once(found[:place] + found[place + 1 :], wanted)
    if least is not None:
        assert (least[1], least[0].total) <= (whole[1], whole[0].total)


counts = st.none() | st.integers(0, 40)
executed = st.builds(
    lambda prompt, output, tokens, **more: Executed(
        prompt=prompt, output=output, tokens=tokens if None in (prompt, output) else (prompt + output) or None, **more
    ),
    counts, counts, tokens=st.none() | st.integers(1, 40), concurrency=st.none() | st.integers(1, 8),
    truncated=st.none() | st.integers(0, 2), dropped=st.none() | st.integers(0, 2),
)  # fmt: skip
stages = st.builds(
    lambda prompt, output, at_once: Stage(
        name="required", tokens=TokenCount(total=prompt + output, prompt=prompt, output=output), concurrency=at_once
    ),
    st.integers(1, 20), st.integers(0, 20), st.none() | st.integers(1, 8),
)  # fmt: skip


@given(stages, executed)
def test_a_stage_is_covered_only_when_every_part_of_it_was_executed(stage, found):
    told = coverage(stage, found)
    if told.is_covered:
        assert found.tokens >= stage.tokens.total
        assert stage.concurrency is None or told.concurrency >= stage.concurrency
        assert found.truncated == found.dropped == 0
        assert not told.findings
    else:
        assert told.findings
    if found.prompt is not None and found.output is not None:
        shorter = found.prompt < stage.tokens.prompt or found.output < stage.tokens.output
        assert not shorter or told.tokens is None or told.tokens < stage.tokens.total
    assert told.tokens is None or told.tokens <= found.tokens


@given(stages, executed)
def test_a_failure_is_never_about_less_than_what_was_tried(stage, found):
    told = tried(stage, found)
    assert told.tokens == max(stage.tokens.total, found.tokens or 0)
    assert told.is_covered is False
