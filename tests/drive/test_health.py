"""The harness's measure of itself."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

import pytest

from harness.drive.health import GC_THRESHOLDS, PauseMeter, SelfMeter, frozen_garbage, percentiles_ms
from tests.drive.fakes import MS, Listed, S, ask
from tests.drive.running import cell_spec, run
from tests.virtual_time import VirtualClock, run_virtual


class LateClock(VirtualClock):
    """Wakes every sleeper 30 ms late."""

    async def sleep_until(self, when_ns: int) -> None:
        await super().sleep_until(when_ns + 30 * MS)


def test_lag_is_how_late_a_timer_fires_and_cpu_is_a_share_of_the_time() -> None:
    async def main(clock: VirtualClock) -> SelfMeter:
        late = LateClock(asyncio.get_running_loop())  # type: ignore[arg-type]
        cpu_ns = iter([5 * S, 6 * S])
        meter = SelfMeter(late, lambda: next(cpu_ns))
        task = asyncio.create_task(meter.watch())
        meter.start()
        await asyncio.sleep(4)
        meter.stop()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return meter

    meter = run_virtual(main)
    assert meter.lag_ms == pytest.approx((30, 30, 30), abs=0.01)
    assert meter.cpu_share == pytest.approx(0.25)


def test_pauses_of_the_garbage_collector_are_timed_until_stopped() -> None:
    now_ns = iter([0, 3 * MS, 10 * MS, 12 * MS])
    meter = PauseMeter(lambda: next(now_ns))
    meter.start()
    gc.collect()
    gc.collect()
    meter.stop()
    gc.collect()
    assert (meter.total_ns, meter.longest_ns) == (5 * MS, 3 * MS)
    assert not [each for each in gc.callbacks if getattr(each, "__self__", None) is meter]


def test_sockets_are_looked_at_now_and_then_and_a_cancelled_meter_leaves_no_callback() -> None:
    async def main(clock: VirtualClock) -> SelfMeter:
        waiting = iter(range(100))
        meter = SelfMeter(clock, unread_bytes=lambda: 100 * next(waiting))
        task = asyncio.create_task(meter.watch())
        meter.start()
        await asyncio.sleep(1.005)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return meter

    before = len(gc.callbacks)
    reading = run_virtual(main).reading
    assert (reading.backlog_max_bytes, reading.backlog_p99_bytes) == (300, pytest.approx(297))
    assert len(gc.callbacks) == before


def test_a_meter_that_never_ran_reports_nothing() -> None:
    meter = SelfMeter(VirtualClock.__new__(VirtualClock))
    assert meter.lag_ms == (None, None, None)
    assert meter.cpu_share is None
    assert percentiles_ms([], (50, 99)) == [None, None]


def test_a_cell_without_measured_requests_has_an_empty_window() -> None:
    closing = run(Listed(steps=()), cell_spec(2)).closing
    assert (closing.sent, closing.window_start_ns, closing.window_end_ns) == (0, None, None)
    assert closing.health.achieved_concurrency is None
    assert closing.health.send_delay_p50_ms is None


def test_a_late_loop_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.drive.health.SelfMeter.lag_ms", (1.0, 45.5, 90.0))
    closing = run(Listed(steps=(ask("a"),)), cell_spec(1)).closing
    assert closing.warnings == ("the harness itself was late: loop lag p99 45.5 ms",)


def test_garbage_is_frozen_and_seldom_collected_during_a_cell_only() -> None:
    before = gc.get_threshold()
    with frozen_garbage():
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == GC_THRESHOLDS
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == before
