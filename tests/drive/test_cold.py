"""Cold starts: flushed with the next count as proof, flooded by the server's capacity, the tier behind first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import orjson
import pytest

from harness.drive.cold import ColdOptions, ColdStart, plan_flood, start_cold
from harness.endpoint.dialects.base import Settings
from harness.endpoint.encode import EncodedRequest
from harness.endpoint.errors import EndpointError
from harness.endpoint.raw import RawAnswer
from harness.endpoint.target import Target
from harness.endpoint.url import normalise_base_url
from harness.records import ErrorKind, RequestError, TargetInfo
from tests.endpoint.recordings import raw_answer
from tests.virtual_time import VirtualClock, run_virtual
from workloads.plan import Json

TOKENS = 700


@dataclass(slots=True)
class CachingServer:
    """Keeps the last `capacity` prompts; `control` maps a path to scripted answers, of which the last repeats.

    An answer that is a number is a status; "emptied" in it empties the cache, "stuck" in it says so and does not.
    """

    control: dict[str, list[str | int]] = field(default_factory=dict)
    capacity: int = 1000
    reports: bool = True
    kept: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    prompts: int = 0

    @property
    def target(self) -> Target:
        return Target(base=normalise_base_url("http://x"), model="m", endpoint_type="completions")

    async def send(self, request: EncodedRequest, *, on_cancel: Callable[[RawAnswer], None] | None = None) -> RawAnswer:
        prompt = orjson.loads(request.body)["prompt"]
        cached = TOKENS - 10 if prompt in self.kept else 0
        self.kept = [*(each for each in self.kept if each != prompt), prompt][-self.capacity :]
        self.prompts += 1
        usage: dict[str, Json] = {"prompt_tokens": TOKENS, "completion_tokens": 1}
        if self.reports:
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        choice: Json = {"index": 0, "text": "a", "finish_reason": "length"}
        return raw_answer(orjson.dumps({"choices": [choice], "usage": usage}))

    async def get_text(self, path: str) -> str:
        return await self.post_text(path)

    async def get_json(self, path: str) -> Json:
        raise AssertionError(path)

    async def post_json(self, path: str, body: Json) -> Json:
        raise AssertionError(path)

    async def post_text(self, path: str) -> str:
        self.asked.append(path)
        scripted = self.control.get(path.partition("?timeout")[0], [404])
        said = scripted.pop(0) if len(scripted) > 1 else scripted[0]
        if isinstance(said, int):
            raise EndpointError(RequestError(kind=ErrorKind.HTTP_STATUS, message="no", http_status=said))
        if "emptied" in said:
            self.kept.clear()
        return said


def cold(server: CachingServer, options: ColdOptions, details: dict[str, Json] | None = None) -> ColdStart:
    info = TargetInfo(
        base_url="http://x", chosen_by="option", model="m", endpoint_type="completions", engine="sglang",
        details={} if details is None else details,
    )  # fmt: skip

    async def main(clock: VirtualClock) -> ColdStart:
        return await start_cold(server, clock, info, options)

    return run_virtual(main)


FLUSH, FLOOD = ColdOptions(by="flush"), ColdOptions(by="flood")


def test_a_flush_is_proved_by_the_next_count() -> None:
    found = cold(CachingServer({"/flush_cache": ["emptied"]}), FLUSH)
    assert (found.verified, found.cached_before, found.cached_after) == (True, 690, 0)
    assert found.trouble is None and found.steps == ("flush: /flush_cache?timeout=20: emptied",)
    assert (found.requests, found.tokens) == (3, 2100)


def test_a_busy_server_is_asked_again() -> None:
    server = CachingServer({"/flush_cache": [400, 400, "emptied"]})
    assert cold(server, FLUSH).verified is True
    assert len(server.asked) == 3


def test_a_flush_that_only_says_so_is_tried_again_and_then_told() -> None:
    assert cold(CachingServer({"/flush_cache": ["stuck", "emptied"]}), FLUSH).verified is True
    found = cold(CachingServer({"/flush_cache": ["stuck"]}), FLUSH)
    assert found.verified is False
    assert found.trouble == "the server says that its cache is empty, but the sentinel hit 690 tokens"
    assert len(found.steps) == 3


def test_a_server_without_a_flush_says_why() -> None:
    found = cold(CachingServer(), FLUSH)
    assert found.verified is False and found.trouble == "the server did not empty its cache: no"


def test_without_reported_counts_nothing_is_proved() -> None:
    found = cold(CachingServer({"/flush_cache": ["emptied"]}, reports=False), FLUSH)
    assert (found.verified, found.cached_after, found.trouble) == (None, None, None)


def test_the_tier_behind_is_emptied_first_and_only_on_request() -> None:
    routes: dict[str, list[str | int]] = {"/hicache/storage-backend/clear": ["gone"], "/flush_cache": ["emptied"]}
    server = CachingServer(dict(routes))
    assert cold(server, ColdOptions(by="flush", clear_l3=True)).verified is True
    assert server.asked == ["/hicache/storage-backend/clear", "/flush_cache?timeout=20"]
    untouched = CachingServer(dict(routes))
    cold(untouched, FLUSH)
    assert untouched.asked == ["/flush_cache?timeout=20"]


def test_the_older_route_of_the_tier_behind() -> None:
    server = CachingServer({"/clear_hicache_storage_backend": ["gone"], "/flush_cache": ["emptied"]})
    assert cold(server, ColdOptions(by="flush", clear_l3=True)).verified is True
    assert server.asked[:2] == ["/hicache/storage-backend/clear", "/clear_hicache_storage_backend"]


def test_a_tier_that_stays_full_leaves_the_cache_alone() -> None:
    server = CachingServer({"/hicache/storage-backend/clear": [403], "/flush_cache": ["emptied"]})
    found = cold(server, ColdOptions(by="flush", clear_l3=True))
    assert found.trouble == "the tier behind could not be emptied: no"
    assert "/flush_cache?timeout=20" not in server.asked


def test_a_flood_is_sized_by_what_the_server_tells() -> None:
    server = CachingServer(capacity=6)
    found = cold(server, FLOOD, {"max_total_num_tokens": 4200, "page_size": 16})
    assert (found.verified, found.cached_before, found.cached_after) == (True, 690, 0)
    assert "sized from 4,200 tokens" in found.steps[0]


def test_a_flood_that_was_too_small_is_made_larger_once() -> None:
    found = cold(CachingServer(capacity=10), FLOOD, {"max_total_num_tokens": 4800, "page_size": 16})
    assert found.verified is False and found.trouble is not None and "still hits 690" in found.trouble
    assert len(found.steps) == 2


def test_a_server_that_tells_no_capacity_cannot_be_flooded() -> None:
    found = cold(CachingServer(), FLOOD)
    assert found.trouble is not None and "--note cache_tokens=VALUE" in found.trouble


@pytest.mark.parametrize(
    ("settings", "prompts"),
    [
        (Settings(cache_tokens=10_000), 12),
        (Settings(state_slots=100), 121),
        (Settings(cache_tokens=10_000, state_slots=100), 121),
        (Settings(cache_tokens=1_000_000, state_slots=100), 1200),
    ],
)
def test_tokens_and_state_slots_both_have_to_be_filled(settings: Settings, prompts: int) -> None:
    plan = plan_flood(settings, 1000)
    assert plan is not None and plan.prompts == prompts


def test_nothing_told_is_no_plan() -> None:
    assert plan_flood(Settings(), 1000) is None
