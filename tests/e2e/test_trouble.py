"""A server with every kind of trouble: the sweep goes on, and the table says how many failed and why."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.records import ErrorKind, Outcome
from harness.store import RunFolder, read_cell
from tests.e2e.commands import run_ling_bench
from tests.endpoint.bad_server import STREAM_HEAD, BadServer, Request, Respond, chunk, delta, event, good_stream, plain

MODELS = json.dumps({"object": "list", "data": [{"id": "only", "object": "model"}]}).encode()
HALF = STREAM_HEAD + chunk(delta("half"))
# One answer each, in turn; a connection is closed after those that break it.
TROUBLES: tuple[tuple[bytes, bool], ...] = (
    (good_stream(), False),
    (plain("500 Internal Server Error", b'{"error":{"message":"boom"}}'), False),
    (plain("429 Too Many Requests", b'{"error":{"message":"slow down"}}', "Retry-After: 3"), False),
    (plain("503 Service Unavailable", b'{"error":{"message":"queue full"}}'), False),
    (HALF, True),
    (HALF + chunk(event('{"error":{"message":"engine died","code":500}}')) + chunk(b""), False),
    (plain("200 OK", b"<html>hello</html>", "Content-Type: text/html"), False),
    (STREAM_HEAD + b"zz\r\nnot chunked", True),
)


def respond_in_turn() -> Respond:
    answers = itertools.cycle(TROUBLES)

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET":
            found = request.path == "/v1/models"
            writer.write(plain("200 OK", MODELS) if found else plain("404 Not Found", b"{}"))
            return
        if request.path != "/v1/chat/completions":
            writer.write(plain("404 Not Found", b"{}"))
            return
        answer, close = next(answers)
        writer.write(answer)
        await writer.drain()
        if close:
            writer.close()

    return respond


@contextmanager
def troubled_server() -> Iterator[str]:
    """The server on a loop of its own thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = BadServer(respond_in_turn())
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    try:
        yield server.url
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def test_every_trouble_becomes_a_record_and_the_table_says_why(tmp_path: Path) -> None:
    with troubled_server() as url:
        result = run_ling_bench(
            *("sweep", "--base-url", url, "--concurrency", "1", "--num-prompts", "16", "--num-warmups", "0"),
            cwd=tmp_path,
        )
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    for words in ("500", "429", "503", "engine died"):
        assert words in result.stdout
    with RunFolder.open(tmp_path / result.stdout.splitlines()[-1]) as run:
        (cell,) = run.cells()
        completes = [record.complete for record in read_cell(run, cell).records]
    kinds = [None if complete.error is None else complete.error.kind for complete in completes]
    assert len(kinds) == 16 and kinds.count(None) == 2
    assert {ErrorKind.HTTP_STATUS, ErrorKind.STREAM_ERROR, ErrorKind.NOT_A_STREAM} <= set(kinds)
    refused = {complete.http_status for complete in completes if complete.outcome is Outcome.REFUSED}
    assert {429, 503} <= refused
    assert all(complete.outcome is Outcome.UNKNOWN for complete in completes if complete.http_status == 500)
