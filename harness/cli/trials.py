"""Trials side by side: each in a process of its own, so that judging one never delays the clock of another."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Generic, TypeVar

from harness.cli.running import run_async

Given = TypeVar("Given")
Result = TypeVar("Result")
# Imported once and inherited by every trial.
PRELOADED = ("harness.cli.selftest_run", "harness.cli.check_run", "scipy.stats", "uvloop")
STOP_TIMEOUT_S = 15.0


def default_jobs() -> int:
    """Two where there are two processors: an engine computes on one of them."""
    return min(2, len(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True)
class Ended(Generic[Result]):
    """One trial's result and its place among those given."""

    place: int
    result: Result


async def side_by_side(
    work: Callable[[Given], Coroutine[object, object, Result]], given: Sequence[Given], jobs: int
) -> AsyncGenerator[Ended[Result]]:
    """Carry out `work(each)` in processes, at most `jobs` at once; yields results as they come.

    `work` and what goes in and out of it is pickled. What it raises is raised here, and ends the others; so does
    closing the iterator.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    waiting = list(enumerate(given))
    running: set[asyncio.Task[Ended[Result]]] = set()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.add(asyncio.create_task(_apart(context, work, *waiting.pop(0))))
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _apart(
    context: ForkServerContext, work: Callable[[Given], Coroutine[object, object, Result]], place: int, given: Given
) -> Ended[Result]:
    """One process from its start to its end; a cancelled one tidies up as after Ctrl-C."""
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_in_process, args=(sender, work, given), daemon=True)
    process.start()
    sender.close()

    def receive() -> Result | Exception:
        try:
            with receiver:
                answer: Result | Exception = receiver.recv()
        except EOFError:
            return RuntimeError("a trial's process ended without a result; its messages are above")
        return answer

    try:
        result: Result | Exception = await asyncio.to_thread(receive)
    finally:
        if process.is_alive():
            process.terminate()
        await asyncio.shield(asyncio.to_thread(process.join, STOP_TIMEOUT_S))
    if isinstance(result, Exception):
        raise result
    return Ended(place, result)


def _in_process(sender: Connection, work: Callable[[Given], Coroutine[object, object, Result]], given: Given) -> None:
    """The life of the process; Ctrl-C at the terminal reaches the parent, which says when to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sender.send(run_async(lambda: work(given)))
    except KeyboardInterrupt:
        return
    except Exception as trouble:  # told to the parent, which raises it
        sender.send(trouble)
