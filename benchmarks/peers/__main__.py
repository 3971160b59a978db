"""Other load generators beside ours on one mock server, in turn, as often as asked.

    bash benchmarks/peers/install.sh
    python -m benchmarks.peers --results PEERS.jsonl [--repetitions 3] [--clients ling-bench,GuideLLM]
    python -m benchmarks.peers --results PEERS.jsonl --table

Each repetition runs every client: 256 streams with one and with `--waves` requests a stream, paced as a server is, and
1,024 requests on 32 streams flat out. A line of JSON is added for each run, so that a series can be made in pieces.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.client_cost import FLAT, PACED, Mock, program, running_mock
from benchmarks.peers.answers import READERS, errors_ms
from benchmarks.peers.clients import CLIENTS, Load
from benchmarks.peers.table import table
from benchmarks.peers.tokenizer import make_tokenizer
from benchmarks.peers.tree import adopt_orphans, spend

HERE = Path(__file__).parent
TIMEOUT_S = 240.0
FLAT_STREAMS, FLAT_REQUESTS = 32, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What every run shares. keep: where the output of a failed run is left."""

    mock: Mock
    floor: Path
    tokenizer: Path
    results: Path
    keep: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One run of one client in one repetition."""

    name: str
    repetition: int
    concurrency: int
    requests: int
    configuration: str = PACED
    times: bool = True


def parts(kind_exports_times: bool, repetition: int, streams: int, waves: int) -> list[Part]:
    """The runs of one client; one whose token times cost extra keeps them in a run of their own."""
    kept = not kind_exports_times
    small = Part(name="small", repetition=repetition, concurrency=streams, requests=streams, times=kept)
    large = Part(name="large", repetition=repetition, concurrency=streams, requests=waves * streams, times=kept)
    truth = Part(name="truth", repetition=repetition, concurrency=streams, requests=2 * streams)
    flat = Part(
        name="flat",
        repetition=repetition,
        concurrency=FLAT_STREAMS,
        requests=FLAT_REQUESTS,
        configuration=FLAT,
        times=False,
    )
    return [small, large, *([truth] if kind_exports_times else []), flat]


def run(bench: Bench, client: str, part: Part) -> dict[str, Any]:
    """One run and what it showed; `trouble` says why there is nothing to show."""
    kind = CLIENTS[client]
    said: dict[str, Any] = {"client": client, "version": kind.version, "date": time.strftime("%Y-%m-%d %H:%M")}
    said |= {"part": part.name, "repetition": part.repetition, "concurrency": part.concurrency}
    said |= {"requests": part.requests, "load_average": round(os.getloadavg()[0], 1)}
    if not kind.program().exists():
        return said | {"trouble": "not installed"}
    with tempfile.TemporaryDirectory() as name:
        load = Load(
            port=bench.mock.port,
            concurrency=part.concurrency,
            requests=part.requests,
            folder=Path(name),
            tokenizer=bench.tokenizer,
            floor=bench.floor,
            times=part.times,
        )
        bench.mock.prepare(part.configuration)
        log = load.folder / "log.txt"
        spent = spend(kind.command(kind.program(), load), {**os.environ, **kind.environment}, log, TIMEOUT_S)
        said |= asdict(spent) | {"mock": json.loads(bench.mock.get("/mock/stats"))}
        trouble = _trouble(said, part)
        if trouble is not None:
            bench.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(log, bench.keep / f"{client.replace(' ', '-')}-{part.name}.txt")
            return said | {"trouble": trouble}
        if part.times and part.name in ("large", "truth"):
            said |= errors_ms(list(READERS[client](load.folder)), bench.mock.log())
    return said


def _trouble(said: dict[str, Any], part: Part) -> str | None:
    if said["exit_code"] not in (0, 4):  # 4: our client says that it was not sound on this machine; its figures stand.
        return "timed out" if said["exit_code"] is None else f"exit code {said['exit_code']}"
    asked = said["mock"]["requests"]
    return None if asked == part.requests else f"sent {asked} requests of {part.requests}"


def repeat(bench: Bench, clients: list[str], repetition: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for client in clients:
        for part in parts(CLIENTS[client].times_cost, repetition, options.streams, options.waves):
            if part.name in options.parts.split(","):
                yield run(bench, client, part)


@contextmanager
def bench_at(results: Path) -> Iterator[Bench]:
    """The mock server and the floor, built and running."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        floor = program(HERE / "floor_client.c", folder)
        tokenizer = make_tokenizer(folder / "tokenizer")
        with running_mock(program(HERE / "mock_server.c", folder)) as mock:
            keep = results.with_suffix(".failed")
            yield Bench(mock=mock, floor=floor, tokenizer=tokenizer, results=results, keep=keep)


def main() -> None:
    parser = argparse.ArgumentParser(description="other load generators beside ours on one mock server")
    parser.add_argument("--results", type=Path, required=True, help="JSON lines, added to")
    parser.add_argument("--table", action="store_true", help="show what is there and run nothing")
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--parts", default="small,large,truth,flat")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="number of the first repetition")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--waves", type=int, default=4, help="requests a stream of the larger run")
    options = parser.parse_args()
    if options.table:
        print(table([json.loads(line) for line in options.results.read_text().splitlines()]))
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    adopt_orphans()
    with bench_at(options.results.resolve()) as bench, options.results.open("a") as output:
        for repetition in range(options.first, options.first + options.repetitions):
            for said in repeat(bench, options.clients.split(","), repetition, options):
                print(json.dumps(said), file=output, flush=True)
                print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
