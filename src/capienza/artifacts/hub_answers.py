"""What the Hub's answers mean, in words that end in the command which helps. No network here.

Source: the Hub's status codes with its `X-Error-Code` and `X-Error-Message` headers, as huggingface_hub reads them. A
repository that does not exist and one that is private look the same from outside: 401 without a token, 404 with one.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from capienza.errors import Message, Place, UnreachableError, template

NO_ANSWER = template(
    "artifacts.hub-no-answer",
    "there is no usable answer from {host}: {reason}",
    "check the connection, proxies and HF_ENDPOINT, then try again",
)
MOVED = template(
    "artifacts.hub-moved",
    "has moved to {found}",
    "use the id {found}",
)
GATED = template(
    "artifacts.hub-gated",
    "is behind a licence that this account has not accepted, or no account is logged in",
    "accept it at {page}, then run `hf auth login`",
)
MISSING_REPOSITORY = template(
    "artifacts.hub-missing-repository",
    "is not on the Hub, or is private",
    "check the id; for a private model run `hf auth login`; a local folder is written ./{repo}",
)
BAD_TOKEN = template(
    "artifacts.hub-bad-token",
    "the Hub does not accept the token",
    "run `hf auth login`, or correct HF_TOKEN",
)
MISSING_REVISION = template(
    "artifacts.hub-missing-revision",
    "has no revision {revision}",
    "the branches and tags are listed at {page}/tree/main",
)
MISSING_FILE = template(
    "artifacts.hub-missing-file",
    "is not there",
    "the files are listed at {page}/tree/main",
)
TOO_MANY_REQUESTS = template(
    "artifacts.hub-too-many-requests",
    "the Hub limits requests from here (HTTP 429)",
    "wait a few minutes; `hf auth login` raises the limit",
)
REFUSED = template(
    "artifacts.hub-refused",
    "{host} answered HTTP {status}",
    "try again later; whether the Hub works is shown at https://status.huggingface.co",
)
STRANGE_ANSWER = template(
    "artifacts.hub-strange-answer",
    "the answer of {host} is not what the Hub sends: {reason}",
    "check HF_ENDPOINT and proxies",
)


def refusal(status: int, headers: Mapping[str, str], page: str, place: Place, revision: str | None) -> UnreachableError:
    """The error for an answer that is neither 200 nor 206. `page` is the repository's address for people."""
    return UnreachableError(_meaning(status, headers, page, revision), place)


def _meaning(status: int, headers: Mapping[str, str], page: str, revision: str | None) -> Message:
    code = headers.get("x-error-code", "")
    repo = "/".join(page.split("/")[-2:])
    if code == "GatedRepo" or (status == 403 and not code):
        return GATED(page=page)
    if code == "RevisionNotFound":
        return MISSING_REVISION(revision=revision or "main", page=page)
    if code == "EntryNotFound":
        return MISSING_FILE(page=page)
    if status == 401 and "Invalid credentials" in headers.get("x-error-message", ""):
        return BAD_TOKEN()
    if code == "RepoNotFound" or status in (401, 404):
        return MISSING_REPOSITORY(repo=repo)
    if status == 429:
        return TOO_MANY_REQUESTS()
    return REFUSED(host=urlsplit(page).netloc, status=status)
