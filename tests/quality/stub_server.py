"""A server of the OpenAI protocol in a process of its own, so that it can be killed: `stub_server.py PORT SECONDS`.

It answers a sum rightly after SECONDS, and writes each item's prompt on standard output when it has answered it.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers /completions."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """One completion."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(float(sys.argv[2]))
        number = int(asked["prompt"].split()[0])
        choice = {"text": f" {number + 1}", "finish_reason": "stop"}
        data = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 4, "completion_tokens": 1}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):  # a client that was killed hears nothing
            self.wfile.write(data)
        sys.stdout.write(f"{asked['prompt']}\n")
        sys.stdout.flush()

    def log_message(self, *_: object) -> None:
        """Stay silent."""


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
