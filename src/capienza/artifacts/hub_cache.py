"""The cache that huggingface_hub keeps on this machine: `models--org--name/refs/BRANCH` and `/snapshots/COMMIT/`."""

from __future__ import annotations

from pathlib import Path

from capienza.artifacts.folder import LocalFolder
from capienza.artifacts.source import Source
from capienza.errors import NOWHERE, CapienzaError, Place, UnreachableError, template

NOT_CACHED = template(
    "artifacts.not-cached",
    "is not in the local cache",
    "run `hf download {repo}` while connected; `--include` restricts it to some files",
)


class CachedFolder(LocalFolder):
    """A snapshot: what is missing was not downloaded, which does not mean that the model lacks it."""

    def absent(self, name: str, place: Place) -> CapienzaError:  # noqa: ARG002
        """What to download."""
        return UnreachableError(NOT_CACHED(repo=self.label), Place(self.address(name)))

    def source(self, name: str) -> Source:
        """The file, opened."""
        if not self.has(name):
            raise self.absent(name, NOWHERE)
        return super().source(name)


def find_snapshot(repo: str, revision: str, cache: str) -> Path | None:
    """The folder of a branch, tag or commit (seven digits or more), named by its commit; None when not cached."""
    root = Path(cache) / f"models--{repo.replace('/', '--')}"
    try:
        commit = (root / "refs" / revision).read_text("ascii").strip()
    except (OSError, ValueError):
        commit = revision
    if len(commit) < 7 or not all(digit in "0123456789abcdef" for digit in commit):
        return None
    found = [path for path in root.glob(f"snapshots/{commit}*") if path.is_dir()]
    return found[0] if len(found) == 1 else None
