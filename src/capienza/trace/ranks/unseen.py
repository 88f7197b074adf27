"""What a trace of one rank cannot see: entries without an amount."""

from __future__ import annotations

from collections.abc import Sequence

from capienza.errors import Message, template
from capienza.ledger.entry import Entry
from capienza.ledger.phase import Phase

COMMUNICATION = template(
    "trace.communication-unseen",
    "what the communication library holds on the card for {world_size} ranks (channels, buffers, its kernels)",
)
DEFERRED = template(
    "trace.frees-deferred",
    "blocks that the program lets go while another stream still uses them (record_stream): they count as free at once, "
    "on a card they are held until that stream has come so far",
)
A_READING = template(
    "trace.proof-communication",
    "the process's reading of the driver less torch.cuda.memory_reserved, on that many cards",
    "measure the run on the intended cards",
)
A_MEASURE = template(
    "trace.proof-deferred",
    "torch.cuda.max_memory_allocated on that many cards",
    "measure the run on the intended cards",
)
ENTRIES = {
    COMMUNICATION.code: ("communication_library", "the communication library's settings and links", A_READING),
    DEFERRED.code: ("deferred_frees", "how far the streams are behind", A_MEASURE),
}


def entries_of(unknown: Sequence[Message], gpu: str, phases: tuple[Phase, ...]) -> list[Entry]:
    """An entry without an amount for each of these that takes memory of the card."""
    made = []
    for message in unknown:
        if message.code in ENTRIES:
            name, needs, proof = ENTRIES[message.code]
            made.append(
                Entry(
                    name=name,
                    phases=phases,
                    device=gpu,
                    amount=None,
                    status="unknown",
                    formula=message,
                    needs=(needs,),
                    expected_proof=proof(),
                )
            )
    return made
