"""What a server shows of a request is no failure, whatever words stand in it; its own words are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.diagnose.run import diagnose_log

WORDS = "I get torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. How do I fix it?"
FAILS = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.6 GiB"
SHOWN = [
    "INFO 11-02 10:00:00 [logger.py:39] Received request cmpl-1: prompt: '{words}', params: SamplingParams(n=1)",
    "(APIServer pid=9) INFO 11-02 10:00:00 [logger.py:70] Request chatcmpl-1 details: prompt: '{words}', ids: None.",
    "INFO 11-02 10:00:09 [logger.py:80] Generated response chatcmpl-1 (streaming complete): output: '{words}'",
    "[2026-11-02 10:00:00] Receive: obj=GenerateReqInput(rid='1', text='{words}')",
]


@pytest.mark.parametrize("line", SHOWN)
def test_the_text_of_a_request_is_no_failure(line):
    assert not diagnose_log([line.format(words=WORDS).encode() + b"\nmemory usage: 3 GiB\n"]).is_failure


@given(st.sampled_from(SHOWN), st.booleans())
def test_a_failure_beside_it_is_found_as_ever(line, is_before):
    shown = line.format(words=WORDS)
    log = f"{shown}\n{FAILS}\n" if is_before else f"{FAILS}\n{shown}\n"
    found = diagnose_log([log.encode()])
    assert (found.memory, found.requested_bytes, found.evidence_line) == ("device", 2 << 30, 2 if is_before else 1)


def test_the_same_words_without_a_request_are_a_failure():
    assert diagnose_log([f"RuntimeError in the prompt: '{WORDS}'".encode()]).is_failure
