"""What our client costs and how true its times are, against a mock server that logs when it sent each token.

    python -m benchmarks.client_cost [--concurrency 1,32,256] [--mock SOURCE] [--floor SOURCE]

`--mock` and `--floor` are C sources (built into a temporary folder) or programs, those of `peers` unless told. The mock
serves OpenAI chunks, paced or flat out, and answers /mock/config, /mock/reset and /mock/log; the floor is a minimal
epoll client that reads the same streams in the same run. Prints JSON lines: per level the CPU microseconds per token
while receiving and while decoding (all streams started at once, as the floor does), then the errors of TTFT and ITL in
ms (p50, p99, starts spread over --spread seconds); last the tokens per second with the server flat out. Ratios of one
run hold between machines; absolute figures do not, and a busy machine spoils both.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import resource
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.clock import NS_PER_MS, MonotonicClock
from harness.endpoint.client import Client
from harness.endpoint.encode import encode_request
from harness.endpoint.raw import RawAnswer
from harness.endpoint.target import Target
from harness.endpoint.url import normalise_base_url
from harness.endpoint.wire import Reading, decode
from workloads.plan import Ask, TextPrompt

TOKENS = 128
PROMPT_WORDS = 128
PACED = "mode=paced&ttft_us=100000&itl_us=20000&log=1"
FLAT = "mode=flat&log=0"
REQUEST_NUMBER = re.compile(r"r(\d{9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many requests at once and in all, and over how long the first ones start."""

    concurrency: int
    requests: int
    spread_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one load gave: CPU and wall seconds while receiving, and the answers."""

    cpu_s: float
    wall_s: float
    transport: str
    opened: int
    answers: tuple[RawAnswer, ...]


class Mock:
    """The mock server's control routes."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            content: bytes = answer.read()
            return content

    def prepare(self, configuration: str) -> None:
        self.get("/mock/reset")
        self.get(f"/mock/config?{configuration}")

    def log(self) -> dict[int, Any]:
        """The true times of each finished request, by its number."""
        return {line["id"]: line for line in map(json.loads, self.get("/mock/log").splitlines())}


def program(path: Path, folder: Path) -> Path:
    """`path` itself, or what gcc makes of it if it is a source."""
    if path.suffix != ".c":
        return path.resolve()
    built = folder / path.stem
    subprocess.run(["gcc", "-O2", "-o", str(built), str(path), "-lpthread"], check=True)
    return built


@contextmanager
def running_mock(binary: Path) -> Iterator[Mock]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([str(binary), "-p", str(port), "-n", str(TOKENS), "-l"])
    try:
        _wait_for(port)
        yield Mock(port)
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.02)
    raise SystemExit("the mock server did not start")


async def drive(port: int, load: Load) -> Run:
    """Send the load in a closed loop, all bodies made and all connections opened before."""
    target = Target(base=normalise_base_url(f"127.0.0.1:{port}"), model="mock-model", endpoint_type="completions")
    prompt = TextPrompt(text="hello " * PROMPT_WORDS)
    asks = [Ask(key=str(number), prompt=prompt, max_tokens=TOKENS) for number in range(load.requests)]
    bodies = iter([encode_request(ask, target, {}, ask.key) for ask in asks])
    answers: list[RawAnswer] = []

    async def stream(client: Client, slot: int) -> None:
        await asyncio.sleep(load.spread_s * slot / load.concurrency)
        for body in bodies:
            answers.append(await client.send(body))

    async with Client(target, MonotonicClock()) as client:
        opened = await client.open_connections(load.concurrency)
        gc.collect()
        gc.freeze()
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        await asyncio.gather(*(stream(client, slot) for slot in range(load.concurrency)))
        cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
        gc.unfreeze()
        return Run(cpu_s=cpu_s, wall_s=wall_s, transport=client.transport, opened=opened, answers=tuple(answers))


def measured(port: int, load: Load) -> Run:
    """`drive` on uvloop where it can be had."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(drive(port, load))
    return uvloop.run(drive(port, load))


def read_all(run: Run) -> tuple[tuple[Reading, ...], float]:
    """Every answer decoded, and the CPU seconds that took; a failed request ends the benchmark."""
    begin_s = time.process_time()
    readings = tuple(decode(answer, stream=True) for answer in run.answers)
    spent_s = time.process_time() - begin_s
    for reading in readings:
        if reading.error is not None:
            raise SystemExit(f"a request failed: {reading.error}")
    return readings, spent_s


def errors_ms(run: Run, readings: Sequence[Reading], log: dict[int, Any]) -> dict[str, list[float]]:
    """p50 and p99 of |error| of TTFT and ITL against the server's own send times."""
    first, gaps = [], []
    for answer, reading in zip(run.answers, readings, strict=True):
        number = REQUEST_NUMBER.search(str(reading.text))
        if number is None or answer.sent_ns is None:
            raise SystemExit("an answer of the mock has no request number")
        true = log[int(number.group(1))]
        sent = np.array(true["t"], dtype=np.int64)
        came = np.array(reading.event_times_ns, dtype=np.int64)
        first.append(abs((came[0] - answer.sent_ns) - (sent[0] - true["t_done"])))
        gaps.append(np.abs(np.diff(came) - np.diff(sent)))
    return {
        "ttft_error_ms": _quantiles_ms(np.array(first)),
        "itl_error_ms": _quantiles_ms(np.concatenate(gaps)),
    }


def _quantiles_ms(values_ns: Any) -> list[float]:
    return [round(float(value) / NS_PER_MS, 3) for value in np.percentile(values_ns, [50, 99])]


def floor_of(binary: Path, port: int, load: Load) -> dict[str, Any]:
    """The C client's figures for the same load. It starts all streams at once."""
    numbers = [str(number) for number in (load.concurrency, load.requests, TOKENS, PROMPT_WORDS)]
    output = subprocess.run(
        [str(binary), str(port), "/v1/completions", *numbers], check=True, capture_output=True, text=True
    ).stdout
    figures = json.loads(output)
    return {"floor_us_per_token": round(figures["us_per_tok"], 2), "floor_tokens_per_s": figures["tok_s"]}


def cost(mock: Mock, floor: Path, load: Load) -> dict[str, Any]:
    """CPU per token of one level with the server paced."""
    mock.prepare(PACED)
    floors = floor_of(floor, mock.port, load)
    mock.prepare(PACED)
    run = measured(mock.port, load)
    _, decode_s = read_all(run)
    tokens = load.requests * TOKENS
    return {
        "measured": "cost",
        "concurrency": load.concurrency,
        "transport": run.transport,
        "us_per_token": round(run.cpu_s / tokens * 1e6, 2),
        "decode_us_per_token": round(decode_s / tokens * 1e6, 2),
        **floors,
        "load_average": round(os.getloadavg()[0], 1),
    }


def truth(mock: Mock, load: Load) -> dict[str, Any]:
    """Errors of the times of one level with the server paced."""
    mock.prepare(PACED)
    run = measured(mock.port, load)
    readings, _ = read_all(run)
    return {
        "measured": "truth",
        "concurrency": load.concurrency,
        "opened": run.opened,
        **errors_ms(run, readings, mock.log()),
        "load_average": round(os.getloadavg()[0], 1),
    }


def flat_out(mock: Mock, floor: Path, load: Load) -> dict[str, Any]:
    """Tokens per second with the server sending as fast as the sockets take it."""
    mock.prepare(FLAT)
    floors = floor_of(floor, mock.port, load)
    mock.prepare(FLAT)
    run = measured(mock.port, load)
    _, decode_s = read_all(run)
    tokens = load.requests * TOKENS
    return {
        "measured": "flat out",
        "concurrency": load.concurrency,
        "transport": run.transport,
        "tokens_per_s": round(tokens / run.wall_s),
        "tokens_per_s_with_decoding": round(tokens / (run.wall_s + decode_s)),
        "us_per_token": round(run.cpu_s / tokens * 1e6, 2),
        **floors,
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU per token and timing error of our client")
    peers = Path(__file__).parent / "peers"
    parser.add_argument("--mock", type=Path, default=peers / "mock_server.c", help="mock server: C source or program")
    parser.add_argument("--floor", type=Path, default=peers / "floor_client.c", help="minimal C client: the same")
    parser.add_argument("--concurrency", default="1,32,256")
    parser.add_argument("--per-stream", type=int, default=2, help="requests per stream")
    parser.add_argument("--spread", type=float, default=2.5, help="seconds over which the starts are spread")
    options = parser.parse_args()
    levels = [int(level) for level in options.concurrency.split(",")]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    with tempfile.TemporaryDirectory() as folder:
        floor = program(options.floor, Path(folder))
        with running_mock(program(options.mock, Path(folder))) as mock:
            for level in levels:
                at_once = Load(concurrency=level, requests=level * options.per_stream, spread_s=0.0)
                print(json.dumps(cost(mock, floor, at_once)), flush=True)
                print(json.dumps(truth(mock, replace(at_once, spread_s=options.spread))), flush=True)
            print(json.dumps(flat_out(mock, floor, Load(concurrency=32, requests=2048, spread_s=0.0))), flush=True)


if __name__ == "__main__":
    main()
