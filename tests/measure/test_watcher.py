"""Lines of engines become phases, whatever the pieces they come in; a flood loses its middle, never its end."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.measure import watcher as room
from capienza.measure.readings import Readings, Writer
from capienza.measure.watcher import Watcher

VLLM = [
    "INFO vLLM API server version 0.11.2",
    "INFO Starting to load model Qwen/Qwen3-8B...",
    "INFO Model loading took 15.27 GiB and 3.2 seconds",
    "INFO Memory profiling takes 3.1 seconds",
    "INFO Capturing CUDA graphs: 100%",
    "INFO Graph capturing finished in 21 secs, took 0.42 GiB",
    "INFO Engine 000: Avg prompt throughput: 100.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs",
]
TRAINER = [
    "Loading checkpoint shards: 100%|##########| 4/4 [00:03<00:00,  1.2it/s]",
    "***** Running training *****",
    "  Num examples = 1,000",
    "{'loss': 1.2345, 'grad_norm': 0.51, 'learning_rate': 1e-05, 'epoch': 0.12}",
    "***** Running Evaluation *****",
    "{'eval_loss': 1.1, 'epoch': 1.0}",
    "Saving model checkpoint to out/checkpoint-100",
]


def watched(folder, pieces, *, is_training=False):
    writer = Writer(folder / "readings.jsonl")
    found = Watcher(writer, "output.log", is_training=is_training)
    found.start()
    for stream, piece in pieces:
        found.take(stream, piece)
    diagnosis = found.finish()
    writer.close()
    spans = Readings(folder / "readings.jsonl").phases()
    assert all(span.end is not None for span in spans)
    return found, diagnosis, [span.phase for span in spans]


def lines(texts):
    return "".join(f"{text}\n" for text in texts).encode()


@pytest.mark.parametrize(
    "texts, is_training, phases",
    [
        (
            VLLM, False,
            {"startup", "load", "profile_warmup", "kv_cache_allocation", "graph_capture", "prefill", "decode"},
        ),
        (VLLM[:-1], False, {"startup", "load", "profile_warmup", "kv_cache_allocation", "graph_capture"}),
        (
            TRAINER, True,
            {"load", "forward", "backward", "optimizer_step_first", "optimizer_step_steady", "eval", "checkpoint"},
        ),
        (TRAINER[:3], True, {"load"}),
    ],
)  # fmt: skip
def test_a_log_becomes_phases(tmp_path, texts, is_training, phases):
    found, diagnosis, seen = watched(tmp_path, [(2, lines(texts))], is_training=is_training)
    assert set(seen) == phases
    assert not diagnosis.is_failure
    assert not found.notes


@settings(max_examples=30)
@given(st.lists(st.integers(0, len(lines(VLLM))), max_size=12))
def test_how_the_output_is_cut_changes_nothing(tmp_path_factory, cuts):
    data, folder = lines(VLLM), tmp_path_factory.mktemp("run")
    ends = sorted({0, len(data), *cuts})
    pieces = [(2, data[start:end]) for start, end in itertools.pairwise(ends)]
    found, _, seen = watched(folder, pieces)
    whole = watched(tmp_path_factory.mktemp("run"), [(2, data)])
    assert set(seen) == set(whole[2])
    assert found.observed.figures == whole[0].observed.figures
    assert found.observed.version == "0.11.2"


def test_of_a_flood_the_end_is_read_and_the_rest_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "MAX_WAITING_BYTES", 200_000)
    writer = Writer(tmp_path / "readings.jsonl")
    found = Watcher(writer, "output.log")
    piece = b"a line that says nothing of a phase\n" * 1000
    for number in range(100):
        found.take(1, piece)
        if number == 50:  # what one stream says is not pushed out by a flood on the other
            found.take(2, b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    found.start()
    assert found.finish().memory == "device"
    assert found.skipped_bytes >= 100 * len(piece) - 200_000
    assert [note.code for note in found.notes] == ["measure.output-not-read"]
    writer.close()


def test_a_fault_of_ours_in_reading_is_a_finding_and_holds_up_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(room.Usage, "line", lambda *_: 1 / 0)
    found, diagnosis, _ = watched(tmp_path, [(1, b"one\n"), (1, b"two\n")])
    assert "measure.output-broke" in [note.code for note in found.notes]
    assert not diagnosis.is_failure


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=200)), max_size=20))
@settings(max_examples=50)
def test_any_bytes_are_survived(tmp_path_factory, pieces):
    found, _, _ = watched(tmp_path_factory.mktemp("run"), pieces)
    assert not found.notes
