"""Cold start of whole processes: a bare interpreter, `capienza --help`, and `size` beside two tools of other people.

    python bench/cold_start.py [--rounds N] [--no-peers]

`size` reads the model of `fixtures.py` from its folder. kvfit and hf-mem ask the Hub only, under a fixed name, so they
ask a server of this machine (see `private_hub.py`) for the same model; the server is started before the clock is, and
its own answering time is shown, because it is part of what they take. A peer that answers wrongly stops the bench.
"""

from __future__ import annotations

import argparse
import http.client
import json
import ssl
import statistics
import sys
import time
from pathlib import Path

import peers
import private_hub
from fixtures import FOLDER, HUB, MODEL, MODEL_BYTES, MODEL_ID, make_model
from measured import Command, Requirement, conclude, machine, quiet_environment, run, table, take_turns

BIN = Path(sys.executable).parent
SIZE_ARGUMENTS = ("size", MODEL, "--tokens", str(peers.TOKENS), "--json")
WORST_ANSWER_S = 0.020
"""A loopback server that takes longer for a small file would make the peers look slow."""


def own_commands() -> tuple[Command, Command, Command]:
    environment = quiet_environment()
    capienza = BIN / "capienza"
    return (
        Command("python -c pass", [sys.executable, "-c", "pass"], environment),
        Command("capienza --help", [capienza, "--help"], environment),
        Command("capienza size", (capienza, *SIZE_ARGUMENTS), environment),
    )


def check_own_answer(stdout: bytes) -> None:
    """Stop when our own answer is not the right one either."""
    text = json.dumps(json.loads(stdout))
    for figure in (MODEL_BYTES, peers.TOKENS * 32 * 2 * 8 * 128 * 2):
        if str(figure) not in text:
            sys.exit(f"capienza size does not answer {figure} B: {text[:2000]}")


def answering_time_s(certificate: Path) -> float:
    """Median time of one small answer of the loopback Hub on an open connection."""
    connection = http.client.HTTPSConnection(private_hub.HOST, context=ssl.create_default_context(cafile=certificate))
    times = []
    for _ in range(11):
        started = time.perf_counter()
        connection.request("GET", f"/{MODEL_ID}/resolve/main/config.json")
        connection.getresponse().read()
        times.append(time.perf_counter() - started)
    connection.close()
    return statistics.median(times)


def with_peers(rounds: int, certificate: Path, key: Path) -> list[Requirement]:
    """All the commands in turns."""
    _, _, size = own_commands()
    with private_hub.serving(HUB, certificate, key, FOLDER / "hub.log"):
        answer_s = answering_time_s(certificate)
        print(f"\nsize of Llama-3.1-8B, {peers.TOKENS} tokens; the loopback Hub answers in {answer_s * 1000:.1f} ms")
        if answer_s > WORST_ANSWER_S:
            sys.exit("the loopback Hub is too slow to compare with")
        commands = [size, *peers.commands(quiet_environment(), certificate)]
        for peer in commands[1:]:
            peers.check_answer(peer.name, run(peer))
        comparison = take_turns(commands, rounds)
    print(table(comparison, base=size.name))
    return [
        Requirement(f"{size.name} / {name}, wall", comparison.ratio(size.name, name, "wall_s"), limit)
        for name, limit in (("kvfit", 1.0), ("hf-mem", 0.35))
    ]


def without_peers(rounds: int) -> list[Requirement]:
    bare, helped, size = own_commands()
    check_own_answer(run(size).stdout)
    comparison = take_turns((bare, helped, size), rounds)
    print(table(comparison, base=bare.name))
    return [
        Requirement(f"{helped.name} / {bare.name}, {text}", comparison.ratio(helped.name, bare.name, field), 5.0)
        for text, field in (("wall", "wall_s"), ("CPU", "cpu_s"))
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="measured rounds, at least 9")
    parser.add_argument("--no-peers", action="store_true", help="measure only our own commands")
    options = parser.parse_args()
    rounds = max(9, options.rounds)
    make_model(MODEL)
    print(f"cold start, {rounds} rounds in turns after one warm-up; {machine()}\n")
    requirements = without_peers(rounds)
    if not options.no_peers:
        versions = peers.install()
        try:
            certificate, key = private_hub.make_certificate(FOLDER)
            private_hub.enter(FOLDER)
        except private_hub.NotPrivate as reason:
            print(f"\nPEERS SKIPPED, nothing is said about them: {reason}")
        else:
            print(f"\npeers: {versions}")
            requirements += with_peers(rounds, certificate, key)
    print()
    return conclude(requirements)


if __name__ == "__main__":
    sys.exit(main())
