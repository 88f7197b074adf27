"""Models on the Hugging Face Hub, read by byte range: the only room that uses the network.

One request lists a repository's files at a revision and names its commit; everything after that is read at the
commit. Weights are never downloaded: a reader asks for the bytes of a header. The token goes to the Hub's own origin
only, never along a redirect to storage. Source: the public HTTP interface of the Hub (`/api/models`, `/resolve`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from capienza import __version__
from capienza.artifacts.folder import Folder, T
from capienza.artifacts.hub_answers import MISSING_FILE, MOVED, NO_ANSWER, STRANGE_ANSWER, refusal
from capienza.artifacts.hub_cache import CachedFolder, find_snapshot
from capienza.artifacts.source import Source, legible
from capienza.errors import InputError, Message, Place, UnreachableError, template

MAX_LISTING_BYTES = 16 * 1024**2
MAX_REDIRECTS = 5
MAX_SKIPPED_BYTES = 64 * 1024**2
"""When a server ignores ranges and sends a file from its start: bytes passed over before giving up."""
REQUEST_SECONDS = 120
"""Longest time for one request as a whole; a server that sends a byte now and then never times out otherwise."""
NUM_CONNECTIONS = 8

BAD_REVISION = template(
    "artifacts.hub-bad-revision",
    "{revision} is not a branch, a tag or a commit",
    "give a branch (main), a tag, or the 40 hexadecimal digits of a commit",
)
OFFLINE = template(
    "artifacts.hub-offline",
    "has no {revision} in the local cache, and HF_HUB_OFFLINE keeps this machine off the Hub",
    "unset HF_HUB_OFFLINE, or run `hf download {repo}` while connected",
)
FROM_CACHE = template(
    "artifacts.read-from-cache",
    "{repo} is read from the local cache at commit {commit}; files that were never downloaded are not seen",
)

_REVISION = re.compile(r"[\w.-]+(?:/[\w.-]+)*")
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_API_REPOSITORY = re.compile(r"/api/models/([^/]+/[^/]+)")


class Repository(msgspec.Struct, frozen=True):
    """A model's files at one commit, on the Hub or in the local cache."""

    folder: Folder
    commit: str
    notes: tuple[Message, ...] = ()


def open_repository(repo: str, revision: str | None) -> Repository:
    """List a repository; offline, or when nothing answers, its snapshot in the local cache.

    Raises `UnreachableError` when it is missing, gated, moved, not cached, or the server fails.
    """
    from huggingface_hub import constants

    if revision is not None and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise InputError(BAD_REVISION(revision=revision[:64]), Place(repo))
    if constants.HF_HUB_OFFLINE:
        cached = _cached(repo, revision, constants.HF_HUB_CACHE)
        if cached is None:
            raise UnreachableError(OFFLINE(repo=repo, revision=revision or "main"), Place(repo))
        return cached
    try:
        return _listed(_Hub(repo), revision)
    except UnreachableError as error:
        cached = _cached(repo, revision, constants.HF_HUB_CACHE) if error.message.code == NO_ANSWER.code else None
        if cached is None:
            raise
        return cached


def _cached(repo: str, revision: str | None, cache: str) -> Repository | None:
    snapshot = find_snapshot(repo, revision or "main", cache)
    if snapshot is None:
        return None
    note = FROM_CACHE(repo=repo, commit=snapshot.name)
    return Repository(CachedFolder(snapshot, repo), snapshot.name, (note,))


class _Lfs(msgspec.Struct):
    size: int


class _Sibling(msgspec.Struct):
    rfilename: str
    size: int | None = None
    lfs: _Lfs | None = None


class _Listing(msgspec.Struct):
    id: str
    sha: str
    siblings: list[_Sibling] = []


def _listed(hub: _Hub, revision: str | None) -> Repository:
    at = "" if revision is None else f"/revision/{quote(revision, safe='')}"
    address = f"{hub.endpoint}/api/models/{hub.repo}{at}?blobs=true"
    data = hub.get(address, Place(hub.repo), limit=MAX_LISTING_BYTES, revision=revision)
    try:
        listing = msgspec.json.decode(data, type=_Listing)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise hub.strange(Place(hub.repo), f"JSON: {error}") from error
    if not re.fullmatch(r"[0-9a-f]{40}", listing.sha):
        raise hub.strange(Place(hub.repo), f"sha: {legible(listing.sha)}")
    if listing.id != hub.repo:
        raise UnreachableError(MOVED(found=legible(listing.id)), Place(hub.repo))
    sizes = {file.rfilename: file.lfs.size if file.lfs else file.size for file in listing.siblings}
    folder = HubFolder(hub, listing.sha, sizes, len(data))
    return Repository(folder, listing.sha)


class HubFolder(Folder):
    """A repository at one commit; files are opened without a request, and read several at a time."""

    def __init__(self, hub: _Hub, commit: str, sizes: dict[str, int | None], listing_bytes: int) -> None:
        super().__init__(hub.repo)
        self._hub = hub
        self._commit = commit
        self._sizes = sizes
        self._listing_bytes = listing_bytes

    def source(self, name: str) -> Source:
        """The file, to be read by byte range."""
        if name not in self._sizes:
            raise UnreachableError(MISSING_FILE(page=self._hub.page), Place(self.address(name)))
        url = f"{self._hub.endpoint}/{self._hub.repo}/resolve/{self._commit}/{quote(name)}"
        return RemoteFile(self._hub, url, self.address(name), self._sizes[name])

    def address(self, name: str) -> str:
        """The id with the file's name: `org/name:file.gguf`."""
        return f"{self.label}:{name}"

    def names(self) -> list[str]:
        """Every file of the repository."""
        return sorted(self._sizes)

    def has(self, name: str) -> bool:
        """Is there such a file?"""
        return name in self._sizes

    def each(self, read: Callable[[str], T], names: Iterable[str]) -> list[T]:
        """Several at a time: a model has up to hundreds of files, and each costs a round trip."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(NUM_CONNECTIONS) as pool:
            return list(pool.map(read, names))

    @property
    def bytes_read(self) -> int:
        """Bytes of all the files and of the listing."""
        return super().bytes_read + self._listing_bytes


class RemoteFile(Source):
    """A file behind a URL; its size is asked for when the listing does not tell it."""

    def __init__(self, hub: _Hub, url: str, name: str, size_bytes: int | None) -> None:
        self._hub = hub
        self._url = url
        super().__init__(name, hub.size_bytes(url, Place(name)) if size_bytes is None else size_bytes)

    def fetch(self, offset: int, length: int) -> bytes:
        """One range request."""
        return self._hub.get_range(self._url, self, offset, length)


class _Hub:
    """One repository's requests: where they go, what they carry, and what their answers mean."""

    def __init__(self, repo: str) -> None:
        from huggingface_hub import constants, get_session, get_token

        self.repo = repo
        self.endpoint = constants.ENDPOINT
        self.page = f"{self.endpoint}/{repo}"
        self._timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
        self._session = get_session()
        # Not `build_hf_headers`: with it, the first request would fetch and store a list of programs to report.
        token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
        self._credentials = {"authorization": f"Bearer {token}"} if token else {}

    def get(self, url: str, place: Place, *, limit: int, revision: str | None = None) -> bytes:
        """A whole answer of at most `limit` bytes."""
        data = bytearray()
        with self._answer(url, place, {}, revision) as answer:
            for chunk in self._chunks(answer, place):
                data += chunk
                if len(data) > limit:
                    raise self.strange(place, f"> {limit} B")
        return bytes(data)

    def strange(self, place: Place, reason: str) -> UnreachableError:
        """The error for an answer that is not the Hub's."""
        return UnreachableError(STRANGE_ANSWER(host=urlsplit(self.endpoint).netloc, reason=reason), place)

    def size_bytes(self, url: str, place: Place) -> int:
        """The size of a file, from the answer to a request for its first byte."""
        with self._answer(url, place, {"range": "bytes=0-0"}, None) as answer:
            match = _RANGE.fullmatch(answer.headers.get("content-range", ""))
            size = match[3] if match else answer.headers.get("content-length", "")
            if not size.isdecimal():
                raise self.strange(place, f"Content-Length: {legible(size)}")
            return int(size)

    def get_range(self, url: str, file: Source, offset: int, length: int) -> bytes:
        """Bytes of a file, counted there. Of a server that ignores ranges, no byte beyond the last wanted is asked."""
        place = Place(file.name)
        with self._answer(url, place, {"range": f"bytes={offset}-{offset + length - 1}"}, None) as answer:
            skipped = 0
            if answer.status_code == 206:
                match = _RANGE.fullmatch(answer.headers.get("content-range", ""))
                if match is None or int(match[1]) != offset or int(match[3]) != file.size_bytes:
                    raise self.strange(place, f"Content-Range: {legible(answer.headers.get('content-range', ''))}")
            elif offset > MAX_SKIPPED_BYTES:
                raise self.strange(place, "Range: HTTP 200")
            else:
                skipped = offset
            data = bytearray()
            for chunk in self._chunks(answer, place):
                file.bytes_read += len(chunk)
                data += chunk[skipped:]
                skipped = max(skipped - len(chunk), 0)
                # An answer read to its own end leaves the connection open for the next request.
                if len(data) >= length and (answer.status_code == 200 or len(data) > length):
                    break
            return bytes(data[:length])

    @contextmanager
    def _answer(self, url: str, place: Place, headers: dict[str, str], revision: str | None) -> Iterator[Any]:
        """An open answer of status 200 or 206. Network errors, also while it is read, become `UnreachableError`."""
        from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

        try:
            answer = self._send(url, place, headers)
            try:
                if answer.status_code not in (200, 206):
                    raise refusal(answer.status_code, answer.headers, self.page, place, revision)
                if answer.headers.get("content-encoding", "identity") != "identity":
                    raise self.strange(place, f"Content-Encoding: {legible(answer.headers['content-encoding'])}")
                yield answer
            finally:
                answer.close()
        except (HTTPError, OSError, ValueError) as error:
            host = urlsplit(self.endpoint).netloc
            raise UnreachableError(NO_ANSWER(host=host, reason=type(error).__name__), place) from error

    def _send(self, url: str, place: Place, headers: dict[str, str]) -> Any:
        """The first answer that is no redirect. Followed by hand: only so is it certain where the token goes."""
        for _ in range(MAX_REDIRECTS):
            own = self._credentials if _origin(url) == _origin(self.endpoint) else {}
            sent = {"user-agent": f"capienza/{__version__}", "accept-encoding": "identity", **own, **headers}
            try:
                request = self._session.build_request("GET", url, headers=sent, timeout=self._timeout)
            except Exception as error:  # what it raises for a bad address is no public name of huggingface_hub
                raise self.strange(place, f"Location: {legible(url)}") from error
            answer = self._session.send(request, stream=True, follow_redirects=False)
            if "location" not in answer.headers or not 300 <= answer.status_code < 400:
                return answer
            if answer.headers.get("content-length", "").isdecimal() and int(answer.headers["content-length"]) < 65_536:
                answer.read()
            answer.close()
            target = urljoin(url, answer.headers["location"])
            moved = _API_REPOSITORY.search(urlsplit(target).path)
            if moved and moved[1] != self.repo:
                raise UnreachableError(MOVED(found=legible(moved[1])), place)
            if urlsplit(url).scheme == "https" != urlsplit(target).scheme:
                raise self.strange(place, "https -> http")
            url = target
        raise self.strange(place, f"HTTP {answer.status_code} x {MAX_REDIRECTS}")

    def _chunks(self, answer: Any, place: Place) -> Iterator[bytes]:
        deadline = time.monotonic() + REQUEST_SECONDS
        for chunk in answer.iter_raw():
            yield chunk
            if time.monotonic() > deadline:
                raise self.strange(place, f"> {REQUEST_SECONDS} s")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
