"""How many requests a server says it runs, looked at until that is what is waited for."""

from __future__ import annotations

from harness.clock import NS_PER_MS
from harness.endpoint.counters import scrape_all, total
from harness.endpoint.errors import EndpointError
from harness.endpoint.probe.prober import Prober
from harness.records import CounterSample

_POLL_NS = 50 * NS_PER_MS


async def sampled(prober: Prober) -> CounterSample | None:
    """The counters now; None if the server shows none."""
    try:
        return await scrape_all(prober.client, prober.clock, prober.client.target.counter_pages)
    except EndpointError:
        return None


def running(prober: Prober, sample: CounterSample) -> float | None:
    """Requests that run; None if the counters do not tell."""
    return total(sample, prober.dialect.name, "running")


async def until_running(prober: Prober, before: CounterSample, *, more: bool, limit_ns: int) -> CounterSample:
    """The counters once more requests run than `before`, or once no more do; the last ones seen after `limit_ns`."""
    give_up_ns = prober.clock.now_ns() + limit_ns
    after, was = before, running(prober, before)
    while True:
        await prober.clock.sleep_until(prober.clock.now_ns() + _POLL_NS)
        found = await sampled(prober)
        after = after if found is None else found
        now = running(prober, after)
        if was is None or now is None or (now > was) is more or prober.clock.now_ns() >= give_up_ns:
            return after
