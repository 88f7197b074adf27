"""Serve a GGUF file with llama.cpp on this machine alone: `python examples/quality/serve.py FILE.gguf [--port 8123]`.

It prints its address, which `capienza quality run PLAN --arm ARM -- ADDRESS/v1` takes, and ends with its input.
Needs the package xllamacpp, which carries llama.cpp compiled.
"""

from __future__ import annotations

import argparse
import sys

import xllamacpp

CONTEXT = 1024


def serve(model: str, port: int, slots: int, threads: int) -> None:
    """Start the server, say where it listens, and wait until standard input ends."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.n_ctx = CONTEXT * slots
    parameters.n_parallel = slots
    parameters.cpuparams.n_threads = threads
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.fit_params = False
    parameters.verbosity = 0
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:
        sys.exit(f"{model} is not served on port {port}: is it a GGUF file, and is the port free? ({error})")
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    serve(given.model, given.port, given.slots, given.threads)
