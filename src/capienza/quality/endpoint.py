"""Asks a server that speaks the OpenAI protocol: /chat/completions for messages, /completions for a bare prompt.

A failure of the connection or of the server is tried again a few times, and the answer says how often; what the server
answers is never asked twice. A refusal (status 400, 413, 422) is the server's answer: mostly that a prompt is too long.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from capienza.errors import Message, MissingPartError, UsageError, shortened, template
from capienza.quality.answers import Answer, impossible
from capienza.quality.collect import Asked
from capienza.quality.corpus import Item
from capienza.quality.logprobs import asked_for, first_token, of_expected
from capienza.quality.plan import QualityPlan, seed_of
from capienza.quality.served import Served, ask_served
from capienza.quality.workers import at_once

ATTEMPTS = 4
PAUSE_SECONDS = 1.0
CONNECT_SECONDS = 10.0
MOST_BYTES = 16 * 2**20
MOST_PAUSE_SECONDS = 120.0
REFUSALS = frozenset({400, 413, 422})
ABOUT_THE_ITEM = re.compile(
    r"context|too (?:long|large|many)|\blength\b|\btokens?\b|exceed|content[ _-](?:filter|polic|manag)|safety",
    re.IGNORECASE,
)
"""What a refusal of one prompt speaks of. Status 400 without any of it refuses the request: no item answers better."""
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})

NO_CLIENT = template(
    "quality.no-http-client", "asking a server needs httpx2", "install it with: pip install 'capienza[quality]'"
)
NOT_AN_ADDRESS = template(
    "quality.not-an-address",
    "{found} is no address of a server",
    "give it as http://127.0.0.1:8000/v1, up to what stands before /chat/completions",
)
UNREACHED = template("quality.server-unreached", "the server was not reached: {problem}")
STATUS = template("quality.server-status", "the server answers with status {status}: {text}")
ODD_KEY = template(
    "quality.odd-key",
    "the key has characters that no header of a request can carry",
    "look at the variable that holds it: a line break or a letter outside ASCII has got into it",
)
PACKED = template("quality.server-packed", "the answer is packed ({kind}), which was not asked for")
TOO_SLOW = template("quality.server-too-slow", "no whole answer came within {seconds} seconds")
TOO_LONG = template("quality.server-too-long", "the answer has more than {limit} bytes")
GARBAGE = template("quality.server-garbage", "what the server sent is no completion: {found}")


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """Where to ask, under which name, and how. `key` is sent as a bearer token and written nowhere."""

    address: str
    model: str
    seconds: float = 600.0
    concurrency: int = 1
    key: str | None = None


class _FailedError(Exception):
    def __init__(self, message: Message, *, is_final: bool = False, pause: float = 0.0) -> None:
        super().__init__(str(message))
        self.message, self.is_final, self.pause = message, is_final, pause


def check_address(address: str) -> str:
    """The address without a slash at its end. Raises `UsageError` for what is no http address."""
    from urllib.parse import urlsplit

    with contextlib.suppress(ValueError):
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment:
            _ = parts.port
            return address.rstrip("/")
    raise UsageError(NOT_AN_ADDRESS(found=shortened(address, 80)))


def served_by(server: Server) -> Served:
    """What the server says of itself. Raises `MissingPartError` when no HTTP client is installed."""
    from urllib.parse import urlsplit

    http, parts = _client_library(), urlsplit(server.address)
    with http.Client(headers=_headers(server), timeout=CONNECT_SECONDS) as client:
        return ask_served(client, f"{parts.scheme}://{parts.netloc}", server.address)


def ask_server(plan: QualityPlan, server: Server, items: Iterable[Item]) -> Iterator[Asked]:
    """What came of each item, in the order in which answers come; at most `concurrency` are under way at once.

    Raises `MissingPartError` when no HTTP client is installed.
    """
    http = _client_library()
    limits = http.Limits(max_connections=server.concurrency)
    timeout = http.Timeout(server.seconds, connect=CONNECT_SECONDS)
    with http.Client(headers=_headers(server), limits=limits, timeout=timeout) as client:
        yield from at_once(lambda item: _ask(client, plan, server, item), items, server.concurrency)


def _headers(server: Server) -> dict[str, str]:
    # A packed answer may unfold to any size before its length is seen.
    plain = {"Accept-Encoding": "identity"}
    return plain | ({"Authorization": f"Bearer {server.key}"} if server.key else {})


def check_key(key: str | None) -> str | None:
    """The key without blanks around it. Raises `UsageError`, without the key, where no header can carry it."""
    found = key.strip() if key else None
    if found and not (found.isascii() and found.isprintable()):
        raise UsageError(ODD_KEY())
    return found


def _ask(client: Any, plan: QualityPlan, server: Server, item: Item) -> Asked:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            answer = _answered(client, plan, server, item)
            return Asked(item.id, msgspec.structs.replace(answer, attempts=attempt))
        except _FailedError as failed:
            failure, pause = failed.message, failed.pause
            if failed.is_final:
                break
        if attempt < ATTEMPTS:
            time.sleep(max(pause, PAUSE_SECONDS * 2 ** (attempt - 1)))
    return Asked(item.id, failure=failure)


def _answered(client: Any, plan: QualityPlan, server: Server, item: Item) -> Answer:
    """One answer, or the server's refusal. Raises `_FailedError`."""
    path = "/chat/completions" if item.messages else "/completions"
    status, data, pause = _posted(client, server, path, _body(plan, server.model, item))
    text = data[:4000].decode(errors="replace") if status != 200 else ""
    if status in REFUSALS and (status == 413 or ABOUT_THE_ITEM.search(text)):
        return Answer(item=item.id, refused=shortened(text, 500))
    if status != 200:
        shown = shortened(" ".join(text.split()), 200)
        raise _FailedError(STATUS(status=status, text=shown), is_final=status not in AGAIN, pause=pause)
    answer = read_completion(item.id, data, is_chat=bool(item.messages))
    if problem := impossible(answer):
        raise _FailedError(problem, is_final=True)
    return msgspec.structs.replace(answer, logprob=of_expected(answer.top, item.expected))


def _posted(client: Any, server: Server, path: str, body: dict[str, Any]) -> tuple[int, bytes, float]:
    """Status, content, and how many seconds the server wants to be left alone."""
    http, deadline = _client_library(), time.monotonic() + server.seconds
    data = bytearray()
    try:
        with client.stream("POST", f"{server.address}{path}", json=body) as response:
            packed = response.headers.get("Content-Encoding", "identity").strip().casefold()
            if packed != "identity":
                raise _FailedError(PACKED(kind=shortened(packed, 40)), is_final=True)
            for chunk in response.iter_raw():
                data += chunk
                if len(data) > MOST_BYTES:
                    raise _FailedError(TOO_LONG(limit=MOST_BYTES), is_final=True)
                if time.monotonic() > deadline:
                    raise _FailedError(TOO_SLOW(seconds=f"{server.seconds:g}"))
            return (
                response.status_code,
                _without_key(bytes(data), server),
                _wanted_pause(response.headers.get("Retry-After")),
            )
    except http.TimeoutException as error:
        raise _FailedError(TOO_SLOW(seconds=f"{server.seconds:g}")) from error
    except (http.HTTPError, OSError) as error:
        raise _FailedError(UNREACHED(problem=shortened(str(error) or type(error).__name__, 200))) from error


def _without_key(data: bytes, server: Server) -> bytes:
    """What the server sent, should it repeat the key: that stands in no file and in no error."""
    return data.replace(server.key.encode(), b"***") if server.key else data


def _wanted_pause(header: str | None) -> float:
    """The seconds of a Retry-After, bounded; 0 for none, or a date."""
    text = (header or "").strip()
    return min(float(text), MOST_PAUSE_SECONDS) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0


def _body(plan: QualityPlan, model: str, item: Item) -> dict[str, Any]:
    decoding = plan.decoding
    asked: dict[str, Any] = {"messages": list(item.messages)} if item.messages else {"prompt": item.prompt}
    if decoding.stop:
        asked["stop"] = list(decoding.stop)
    return {
        "model": model,
        **asked,
        "temperature": float(decoding.temperature),
        "top_p": float(decoding.top_p),
        "max_tokens": decoding.max_tokens,
        "seed": seed_of(plan.id, item.id),
        "stream": False,
        **asked_for(plan, is_chat=bool(item.messages)),
    }


def read_completion(item: str, data: bytes, *, is_chat: bool) -> Answer:
    """The answer in a server's reply. Raises `_FailedError` for what is no completion."""
    try:
        reply = msgspec.json.decode(data)
        choice = reply["choices"][0]
        output = choice["message"]["content"] if is_chat else choice["text"]
        usage = reply.get("usage") or {}
        answer = Answer(
            item=item,
            output="" if output is None else output,
            finish_reason=choice.get("finish_reason"),
            prompt_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
            top=first_token(choice),
            is_prompt_cut=bool(reply.get("truncated") or choice.get("truncated")),
        )
        return msgspec.convert(msgspec.to_builtins(answer), Answer)
    except (msgspec.MsgspecError, LookupError, TypeError, AttributeError, RecursionError, UnicodeDecodeError) as error:
        found = shortened(" ".join(data[:400].decode(errors="replace").split()), 120)
        raise _FailedError(GARBAGE(found=found or "nothing")) from error


def _client_library() -> Any:
    try:
        import httpx2
    except ImportError as error:
        raise MissingPartError(NO_CLIENT()) from error
    return httpx2
