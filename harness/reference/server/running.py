"""Starting a server, saying where it listens, and stopping it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
import threading
from collections.abc import Callable

import uvloop
from aiohttp import web

from harness.reference.assembly import Served, build_engine
from harness.reference.faults.gateway import Gateway
from harness.reference.faults.proxy import proxy_app
from harness.reference.faults.spec import parse_fault
from harness.reference.model.arithmetic import Mode
from harness.reference.model.model import Model
from harness.reference.options import DialectName, EngineOptions
from harness.reference.scheduler.engine import Engine
from harness.reference.server.app import build_app
from harness.reference.server.dialects.base import Dialect
from harness.reference.server.dialects.llamacpp import LlamaDialect
from harness.reference.server.dialects.sglang import SglangDialect
from harness.reference.server.dialects.vllm import VllmDialect
from harness.reference.server.parsing import Parser
from harness.reference.server.request_log import RequestLog
from harness.reference.server.service import Service
from harness.reference.server.worker import EngineWorker
from harness.reference.tokenizer import StreamDecoder, Tokenizer
from harness.reference.weights.shipped import load

DIALECTS: dict[DialectName, Callable[[EngineOptions, Tokenizer], Dialect]] = {
    "vllm": VllmDialect,
    "sglang": SglangDialect,
    "llamacpp": LlamaDialect,
}
SHUTDOWN_S = 1.0
SWITCH_INTERVAL_S = 0.001


def run(options: EngineOptions) -> None:
    """Serves until SIGTERM or SIGINT, or until standard input closes if so told.

    Prints ``{"listening": URL}`` on standard output once requests are taken; behind a faulty gateway, the engine's own
    address is ``direct`` beside it.

    Raises:
        ValueError: the options cannot be served.
        OSError: the address cannot be had.
        Exception: whatever stopped an engine.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)  # the event loop must not wait long for the engine's thread
    uvloop.run(_serve(options, make_engines(options)))


def make_engines(options: EngineOptions) -> list[Engine]:
    """One engine for each replica, all on the same weights.

    Raises:
        ValueError: the options cannot be served.
    """
    config, weights = load(options.arch)
    # Positions are rotated, not learned: a longer limit needs longer tables and nothing else.
    config = dataclasses.replace(config, context_length=max(config.context_length, options.max_model_len))
    mode: Mode = "deterministic" if options.deterministic else "bf16" if options.noise == "bf16" else "default"
    tokenizer = Tokenizer.load()
    served = Served(
        model=Model(config, weights, mode=mode),
        config=config,
        text_stream=lambda: StreamDecoder(tokenizer),
        eos_ids=tokenizer.eos_ids,
    )
    return [build_engine(options, served) for _ in range(options.replicas)]


def plant_faults(options: EngineOptions, engines: list[Engine], dialect: Dialect) -> None:
    """Plants the faults asked for, if any, each anew in every engine.

    Raises:
        ValueError: there is no such fault.
    """
    for fault in map(parse_fault, options.fault):
        fault.build().plant_dialect(dialect)
        for engine in engines:
            fault.build().plant(engine)


def make_service(options: EngineOptions, engines: list[Engine]) -> Service:
    """A service whose workers have not been started.

    Raises:
        ValueError: there is no fault of a name given.
    """
    tokenizer = Tokenizer.load()
    dialect = DIALECTS[options.dialect](options, tokenizer)
    plant_faults(options, engines, dialect)
    parser = Parser(
        rules=dialect.rules,
        tokenizer=tokenizer,
        model_name=options.model_name,
        max_model_len=options.max_model_len,
        seed=options.seed,
        too_long=dialect.too_long,
    )
    most_open = options.slots + options.max_num_queued_reqs if options.max_num_queued_reqs else None
    workers = [EngineWorker(engine, f"engine-{index}", most_open) for index, engine in enumerate(engines)]
    log = RequestLog(options.request_log) if options.request_log is not None else None
    return Service(options=options, tokenizer=tokenizer, dialect=dialect, parser=parser, workers=workers, log=log)


async def _serve(options: EngineOptions, engines: list[Engine]) -> None:
    service = make_service(options, engines)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    gateways = [fault for fault in (parse_fault(text).build() for text in options.fault) if isinstance(fault, Gateway)]
    runners = [
        web.AppRunner(build_app(service), handler_cancellation=True, access_log=None, shutdown_timeout=SHUTDOWN_S)
    ]
    address = {"listening": await _listen(runners[0], options.host, 0 if gateways else options.port)}
    if gateways:
        direct = address["listening"]
        runners.append(web.AppRunner(proxy_app(direct, gateways), access_log=None, shutdown_timeout=SHUTDOWN_S))
        address = {"listening": await _listen(runners[1], options.host, options.port), "direct": direct}
    for worker in service.workers:
        worker.start(loop, stop.set)
    print(json.dumps(address), flush=True)
    if options.exit_with_parent:
        _watch_stdin(loop, stop)
    await stop.wait()
    for worker in service.workers:
        worker.stop()
    for runner in reversed(runners):
        await runner.cleanup()
    if service.log is not None:
        service.log.close()
    for worker in service.workers:
        if worker.failure is not None:
            raise worker.failure


async def _listen(runner: web.AppRunner, host: str, port: int) -> str:
    """Opens a runner's port, 0 for a free one; its URL."""
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=4096).start()
    bound_host, bound_port = runner.addresses[0][:2]
    return f"http://{bound_host}:{bound_port}"


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Stops the server when standard input ends, which it does when the parent dies.

    The descriptor is read directly: a daemon thread inside sys.stdin's buffer would break the interpreter's exit.
    """
    descriptor = sys.stdin.fileno()

    def watch() -> None:
        while os.read(descriptor, 4096):
            pass
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=watch, name="stdin", daemon=True).start()
