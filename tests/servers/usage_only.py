"""A small server that tells lengths by usage alone: no /tokenize, no counters, nothing but models and completions."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from harness.reference.tokenizer import Tokenizer

TOKENIZER = Tokenizer.load()
MODEL = "usage-only"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_GET(self) -> None:
        found = self.path == "/v1/models"
        self._send(200 if found else 404, {"data": [{"id": MODEL, "object": "model"}]} if found else NOT_FOUND)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path not in ("/v1/completions", "/v1/chat/completions"):
            self._send(404, NOT_FOUND)
            return
        chat = "messages" in body
        piece: dict[str, Any] = {"delta": {"content": " a"}} if chat else {"text": " a"}
        usage = {"prompt_tokens": _prompt_tokens(body), "completion_tokens": 1, "total_tokens": 0}
        usage["total_tokens"] = usage["prompt_tokens"] + 1
        events = [
            {"choices": [{"index": 0, "finish_reason": "length", **piece}]},
            {"choices": [], "usage": usage},
        ]
        lines = [*(f"data: {json.dumps(each)}\n\n" for each in events), "data: [DONE]\n\n"]
        self._send_bytes(200, "text/event-stream", "".join(lines).encode())

    def _send(self, status: int, content: object) -> None:
        self._send_bytes(status, "application/json", json.dumps(content).encode())

    def _send_bytes(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


NOT_FOUND = {"error": {"message": "Not Found", "code": 404}}


def _prompt_tokens(body: dict[str, Any]) -> int:
    """A chat as its messages with a mark before and after each, as ChatML has them."""
    if "prompt" in body:
        return len(TOKENIZER.encode(body["prompt"]))
    text = "".join(f"<|im_start|>{each['role']}\n{each['content']}<|im_end|>\n" for each in body["messages"])
    return len(TOKENIZER.encode(f"{text}<|im_start|>assistant\n"))


@contextlib.contextmanager
def usage_only_server() -> Iterator[str]:
    """The server on a free port for as long as the block lasts; yields its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
