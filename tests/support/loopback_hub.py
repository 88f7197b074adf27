"""A small real HTTP server that behaves like the Hub, for `HF_ENDPOINT`: tests and benchmarks without a network.

It serves `DIR/org/name/**` as repositories. Files of weights are redirected to `/cdn/...`, as the Hub redirects to
storage; `hub.faults[repo]` makes a repository misbehave in one named way. As a script, with TLS if wanted:

    python tests/support/loopback_hub.py DIR --port 8443 --cert cert.pem --key key.pem
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

STORED_SUFFIXES = (".safetensors", ".gguf", ".bin", ".pth")
API = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)(?:/(?P<what>revision|tree)/(?P<revision>[^/]+))?(?P<path>/.*)?")
RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
CDN = re.compile(r"/cdn/(?P<repo>[^/]+/[^/]+)/(?P<path>.+)")
REFUSALS = {
    "private": (401, "RepoNotFound", "Invalid username or password."),
    "bad-token": (401, "", "Invalid credentials in Authorization header"),
    "forbidden": (403, "", "Forbidden"),
    "busy": (429, "", "Too many requests"),
    "broken": (500, "", "Internal error"),
    "missing": (404, "RepoNotFound", "Repository not found"),
}
"""Faults that answer every request with a status."""


class LoopbackHub:
    """Serves `root` while used as a context manager; `requests` logs (method, path, headers) of everything asked."""

    def __init__(self, root: Path, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.root = root
        self.faults: dict[str, str] = {}
        self.moved: dict[str, str] = {}
        self.branches: dict[str, str] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.sent_bytes = 0
        self.cdn_origin = ""
        self._listings: dict[tuple[str, int], tuple[list[Path], str]] = {}
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        self.server = _Server(("127.0.0.1", port), Handler)
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port: int = self.server.server_address[1]
        self.endpoint = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> LoopbackHub:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def files(self, repo: str) -> list[Path]:
        """The files of a repository, sorted; empty when there is none."""
        return self._listing(repo)[0]

    def commit(self, repo: str) -> str:
        """The commit of a repository: a digest of its names and sizes."""
        return self._listing(repo)[1]

    def _listing(self, repo: str) -> tuple[list[Path], str]:
        # Kept until a file is added or removed: a benchmark asks for hundreds of files.
        folder = self.root / repo
        key = (repo, folder.stat().st_mtime_ns if folder.is_dir() else 0)
        if key not in self._listings:
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            text = "\n".join(f"{path.relative_to(folder)} {path.stat().st_size}" for path in files)
            self._listings[key] = files, hashlib.sha1(f"{repo}\n{text}".encode()).hexdigest()
        return self._listings[key]

    def resolve(self, repo: str, revision: str) -> str | None:
        """The commit of a branch, tag or commit; None when there is none."""
        commit = self.commit(repo)
        if revision == "main" or (len(revision) >= 7 and commit.startswith(revision)):
            return commit
        return commit if self.branches.get(revision) == repo else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about readers that leave early: that is what they should do."""


class _Handler(BaseHTTPRequestHandler):
    hub: LoopbackHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the log is `hub.requests`."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.hub.requests.append((self.command, self.path, headers))
        path = urlsplit(self.path).path
        for pattern, serve in ((API, self._api), (CDN, self._cdn), (RESOLVE, self._resolve)):
            match = pattern.fullmatch(path)
            if match:
                repo = match["repo"]
                fault = self.hub.faults.get(repo, "")
                if fault in REFUSALS:
                    return self._refuse(*REFUSALS[fault])
                if repo in self.hub.moved:
                    return self._send(307, b"", {"Location": self.path.replace(repo, self.hub.moved[repo], 1)})
                if not self.hub.files(repo):
                    return self._refuse(*REFUSALS["missing"])
                return serve(match, fault)
        return self._refuse(404, "", "Not found")

    def _api(self, match: re.Match[str], fault: str) -> None:
        repo = match["repo"]
        commit = self.hub.resolve(repo, unquote(match["revision"] or "main"))
        if commit is None:
            return self._refuse(404, "RevisionNotFound", "Invalid rev id")
        if fault == "garbage":
            return self._send(200, b"<html>please log in to the network</html>", {"Content-Type": "text/html"})
        blobs = "blobs" in parse_qs(urlsplit(self.path).query) and fault != "no-sizes"
        folder = self.hub.root / repo
        rows = []
        for file in self.hub.files(repo):
            size = file.stat().st_size
            row: dict[str, Any] = {"rfilename": str(file.relative_to(folder))}
            if blobs:
                row |= {"size": size, "blobId": hashlib.sha1(str(file).encode()).hexdigest()}
                if file.suffix in STORED_SUFFIXES:
                    row["lfs"] = {"size": size, "sha256": "0" * 64, "pointerSize": 134}
            rows.append(row)
        if match["what"] == "tree":
            tree = [{"type": "file", "path": row["rfilename"], "size": row.get("size", 0)} for row in rows]
            return self._send_json(tree, commit)
        gated = "manual" if fault == "gated" else False
        name = repo if fault != "other-case" else repo.title()
        listing = {"id": name, "modelId": name, "sha": commit, "private": False, "gated": gated, "siblings": rows}
        return self._send_json(listing, commit)

    def _resolve(self, match: re.Match[str], fault: str) -> None:
        repo, name = match["repo"], unquote(match["path"])
        commit = self.hub.resolve(repo, unquote(match["revision"]))
        file = self.hub.root / repo / name
        if fault == "gated":
            return self._refuse(401, "GatedRepo", "Access to this model is restricted")
        if commit is None:
            return self._refuse(404, "RevisionNotFound", "Invalid rev id")
        if not file.is_file() or fault == "lost-files":
            return self._refuse(404, "EntryNotFound", "Entry not found")
        about = self._about(repo, file)
        if file.suffix in STORED_SUFFIXES and fault != "no-redirect":
            about |= {"X-Linked-Size": str(file.stat().st_size), "X-Linked-ETag": about["ETag"]}
            target = f"{self.hub.cdn_origin}/cdn/{repo}/{quote(name)}?signature=0"
            if fault == "redirect-loop":
                target = self.path
            if fault == "bad-redirect":
                target = "http://127.0.0.1/\x7f"
            return self._send(302, b"", {**about, "Location": target})
        return self._send_file(file, about, fault)

    def _cdn(self, match: re.Match[str], fault: str) -> None:
        file = self.hub.root / match["repo"] / unquote(match["path"])
        self._send_file(file, self._about(match["repo"], file), fault)

    def _about(self, repo: str, file: Path) -> dict[str, str]:
        # On the storage side too: huggingface_hub follows a redirect that stays on one host, and wants them there.
        tag = f'"{hashlib.sha1(str(file).encode()).hexdigest()}"'
        return {"X-Repo-Commit": self.hub.commit(repo), "ETag": tag, "Accept-Ranges": "bytes"}

    def _send_file(self, file: Path, headers: dict[str, str], fault: str) -> None:
        size = file.stat().st_size
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        begin, end, status = 0, size, 200
        if wanted and fault != "ignores-range":
            begin = int(wanted[1])
            end = min(int(wanted[2] or size) + 1, size)
            if begin >= size:
                return self._send(416, b"", {"Content-Range": f"bytes */{size}"})
            status = 206
            shift = 1 if fault == "wrong-range" else 0
            headers["Content-Range"] = f"bytes {begin + shift}-{end - 1 + shift}/{size}"
        with file.open("rb") as stream:
            stream.seek(begin)
            if fault == "compressed":
                return self._send(
                    status, gzip.compress(stream.read(end - begin)), {**headers, "Content-Encoding": "gzip"}
                )
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(end - begin)}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return None
            left = end - begin
            if fault == "stalls":
                self.wfile.write(stream.read(4))
                self.wfile.flush()
                time.sleep(1.5)
                left = 0
            while left > 0 and (block := stream.read(min(left, 65536))):
                # Counted first: the reader may look at the figure as soon as it has the bytes.
                self.hub.sent_bytes += len(block)
                try:
                    self.wfile.write(block)
                except OSError:  # the reader had enough
                    self.hub.sent_bytes -= len(block)
                    break
                left -= len(block)
                if fault == "drops":
                    break
            if fault in ("stalls", "drops"):
                self.close_connection = True
        return None

    def _send_json(self, value: Any, commit: str) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json", "X-Repo-Commit": commit})

    def _refuse(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Message": message, "Content-Type": "application/json"}
        if code:
            headers["X-Error-Code"] = code
        self._send(status, json.dumps({"error": message}).encode(), headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.hub.sent_bytes += len(body)
            self.wfile.write(body)


def main() -> None:
    """Serve a folder until interrupted."""
    parser = argparse.ArgumentParser(description="serve DIR/org/name as a Hub on 127.0.0.1")
    parser.add_argument("dir", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cert", type=Path)
    parser.add_argument("--key", type=Path)
    options = parser.parse_args()
    tls = None
    if options.cert is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(options.cert, options.key)
    hub = LoopbackHub(options.dir, options.port, tls)
    print(f"HF_ENDPOINT={hub.endpoint}", flush=True)  # noqa: T201
    try:
        hub.server.serve_forever()
    except KeyboardInterrupt:
        hub.server.server_close()


if __name__ == "__main__":
    main()
