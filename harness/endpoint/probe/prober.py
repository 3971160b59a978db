"""How a probe asks: one small request at a time, each kept with what came back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from harness.clock import Clock
from harness.endpoint.dialects.base import Dialect, Settings
from harness.endpoint.encode import EncodedRequest, encode_request
from harness.endpoint.probe.result import Capability
from harness.endpoint.raw import RawAnswer
from harness.endpoint.side import ControlPort, JsonSource
from harness.endpoint.target import EndpointType, Target
from harness.endpoint.wire import Reading, decode
from harness.records import ErrorKind, Outcome
from harness.stats.drafts import Drafts, drafts_of
from workloads.plan import Ask, Json, Prompt, TextPrompt
from workloads.text import paragraphs, seeded

OUTPUT_TOKENS = 8
GREEDY: Mapping[str, Json] = {"temperature": 0}


class ProbePort(JsonSource, ControlPort, Protocol):
    """The part of a client that a probe uses."""

    @property
    def target(self) -> Target:
        """Whom it talks to."""
        ...

    async def send(self, request: EncodedRequest, *, on_cancel: Callable[[RawAnswer], None] | None = None) -> RawAnswer:
        """Send and wait for the whole answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One answer, understood."""

    reading: Reading
    answer: RawAnswer

    @property
    def ok(self) -> bool:
        return self.reading.outcome is Outcome.OK

    @property
    def dropped(self) -> bool:
        """We gave it up, as planned, once it had begun."""
        return self.reading.error is not None and self.reading.error.kind is ErrorKind.CANCELLED

    @property
    def cached(self) -> int | None:
        """Cached tokens; None if the answer does not report them."""
        usage = self.reading.usage
        return None if usage is None or not self.ok else usage.cached_tokens

    @property
    def prompt_tokens(self) -> int | None:
        usage = self.reading.usage
        return None if usage is None else usage.prompt_tokens

    @property
    def drafts(self) -> Drafts | None:
        """What the answer's own fields say of drafts."""
        usage = self.reading.usage
        return drafts_of(self.reading.extra, None if usage is None else usage.completion_tokens)

    @property
    def trouble(self) -> str:
        """The status and the server's words."""
        error = self.reading.error
        if error is None:
            return "answered"
        status = "" if error.http_status is None else f"HTTP {error.http_status}: "
        return f"{status}{error.message[:160]}"

    def refused(self, enable_with: str = "") -> Capability:
        """The verdict where the server refused the request: no for 4xx, not known for any other trouble."""
        status = None if self.reading.error is None else self.reading.error.http_status
        works = False if status is not None and 400 <= status < 500 and status not in (408, 429) else None
        return Capability(works=works, how=f"the request failed: {self.trouble}", enable_with=enable_with)


@dataclass(slots=True, kw_only=True)
class Prober:
    """Asks and counts; `route` is the one that works, `seen` every answer in its order.

    exclusive: the server is ours alone. nonce: what keeps the prompts from those of any other probe. extra_body: fields
    of every request, such as a gateway's pinned provider.
    """

    client: ProbePort
    clock: Clock
    dialect: Dialect
    settings: Settings
    nonce: str
    exclusive: bool = False
    max_model_len: int | None = None
    extra_body: Mapping[str, Json] = field(default_factory=dict)
    route: EndpointType = "completions"
    completions: bool = True
    seen: list[Seen] = field(default_factory=list)

    async def ask(
        self,
        key: str,
        prompt: Prompt,
        *,
        max_tokens: int = OUTPUT_TOKENS,
        stream: bool = False,
        fields: Mapping[str, Json] | None = None,
        route: EndpointType | None = None,
        abort_after_events: int | None = None,
    ) -> Seen:
        """Send one request, greedy unless `fields` say otherwise; whatever comes back is kept and returned."""
        ask = Ask(
            key=key,
            prompt=prompt,
            max_tokens=max_tokens,
            stream=stream,
            parameters={**self.extra_body, **({} if fields is None else fields)},
            abort_after_events=abort_after_events,
        )
        target = replace(self.client.target, endpoint_type=self.route if route is None else route)
        request = encode_request(ask, target, GREEDY, f"probe-{len(self.seen)}-{key}")
        answer = await self.client.send(request)
        seen = Seen(reading=decode(answer, stream=stream), answer=answer)
        self.seen.append(seen)
        return seen

    def text(self, name: str, chars: int = 160) -> TextPrompt:
        """Ordinary prose that no other probe has asked; the same name gives the same text."""
        return TextPrompt(text=f"[{self.nonce} {name}] {paragraphs(seeded(self.nonce, name), chars)[:chars]}")

    def enabled_by(self, capability: str) -> str:
        """The flag or body field that switches a capability on here."""
        return self.dialect.enable_with.get(capability, "")

    def verdict(self, capability: str, works: bool | None, how: str) -> Capability:
        """A capability; what would switch it on is said only where it does not work."""
        return Capability(works=works, how=how, enable_with="" if works else self.enabled_by(capability))


def is_json_object(value: Json) -> bool:
    """Whether a field holds an object that says something."""
    return isinstance(value, Mapping) and bool(value)
