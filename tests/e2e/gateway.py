"""A gateway in front of the embedded engine that adds what every answer cost, whole or streamed."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextlib.contextmanager
def billing_gateway(engine_url: str, prices: tuple[float, float, float]) -> Iterator[str]:
    """Its URL; prices: of a million fresh, cached and output tokens."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass_on(None)

        def do_POST(self) -> None:
            self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

        def _pass_on(self, body: bytes | None) -> None:
            request = urllib.request.Request(engine_url + self.path, body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request) as answer:
                    status, kind, content = answer.status, answer.headers["Content-Type"], answer.read()
            except urllib.error.HTTPError as error:
                status, kind, content = error.code, error.headers["Content-Type"], error.read()
            content = b"\n".join(_priced(line, prices) for line in content.split(b"\n"))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _priced(line: bytes, prices: tuple[float, float, float]) -> bytes:
    """A line of an answer with the cost put into its usage, if it has one."""
    prefix = b"data: " if line.startswith(b"data: ") else b""
    try:
        content = json.loads(line.removeprefix(prefix))
        usage = content["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
    except (ValueError, KeyError, TypeError):
        return line
    counts = (usage["prompt_tokens"] - cached, cached, usage["completion_tokens"])
    usage["cost"] = sum(count * price for count, price in zip(counts, prices, strict=True)) / 1e6
    return prefix + json.dumps(content).encode()
