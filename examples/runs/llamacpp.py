"""Run a GGUF file with llama.cpp in main memory, its phases marked: `python examples/runs/llamacpp.py FILE.gguf`.

It needs the package xllamacpp, which carries llama.cpp compiled. What llama.cpp prints of its buffers is on standard
error; the lines that name them are the ones to compare with a prediction.
"""

from __future__ import annotations

import sys

import xllamacpp

from capienza import measure

CONTEXT, PROMPT, OUTPUT = 1024, 512, 64
INFORMATION = 4
"""The level at which llama.cpp prints its buffers."""


def run(model: str) -> None:
    """Load, read the prompt, write tokens. The kinds of buffers that depend on the processor are left out."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.fit_params = False
    parameters.no_extra_bufts = True
    parameters.verbosity = INFORMATION
    with measure.phase("load"):
        server = xllamacpp.Server(parameters)
    prompt = {"prompt": " ".join(f"w{number}" for number in range(PROMPT // 6)), "ignore_eos": True}
    with measure.phase("prefill"):
        server.handle_completions({**prompt, "max_tokens": 1})
    with measure.phase("decode"):
        server.handle_completions({**prompt, "max_tokens": OUTPUT})


if __name__ == "__main__":
    run(sys.argv[1])
