"""Run one coroutine on uvloop where it can be had; SIGINT and SIGTERM cancel it, so that everything so far is saved."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import TypeVar

Result = TypeVar("Result")


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _cancelled_by_sigterm(coroutine: Coroutine[object, object, Result]) -> Result:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await coroutine


def run_async(make: Callable[[], Coroutine[object, object, Result]]) -> Result:
    """Run `make()` to its end; KeyboardInterrupt after SIGINT or SIGTERM, once the coroutine has tidied up."""
    with asyncio.Runner(loop_factory=_new_event_loop) as runner:
        try:
            return runner.run(_cancelled_by_sigterm(make()))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
