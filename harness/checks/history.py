"""What a judge reads: every answer of a check's rounds with its log-probabilities, the steps, the counters."""

from __future__ import annotations

from dataclasses import dataclass

from harness.checks.framing import Framing
from harness.records import Complete, CounterSample, Invoke, Record, TokenLogprob, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an endpoint was found to do; None means not tried.

    salt: a fresh `cache_salt` keeps a request from older cache entries. bypass: `cache_prompt: false` does. flush: the
    cache can be emptied natively. logprobs: most alternatives per token that work, 0 if none. token_id_prompts,
    cached_tokens, speculation, native_score: token ids as prompts, cached tokens in usage, drafting, SGLang's
    /generate. deterministic: the operator declared answers bit-exact whatever the batch, the chunks and the cache.
    cache_tokens: tokens the prefix cache holds. chunk_tokens: the server's prefill chunk. cached_in_stream,
    cached_in_whole: cached tokens come in streamed answers, in whole ones. block_tokens: what the server calls the
    alignment of a hit. answers: how many of the requests that found all this were answered. host_tier: a tier
    behind the device, as the server says.
    """

    engine: str | None = None
    salt: bool | None = None
    bypass: bool | None = None
    flush: bool | None = None
    logprobs: int | None = None
    token_id_prompts: bool | None = None
    cached_tokens: bool | None = None
    speculation: bool | None = None
    native_score: bool | None = None
    deterministic: bool | None = None
    cache_tokens: int | None = None
    chunk_tokens: int | None = None
    cached_in_stream: bool | None = None
    cached_in_whole: bool | None = None
    block_tokens: int | None = None
    answers: int | None = None
    host_tier: bool | None = None

    def describe(self) -> str:
        """What was found, in words; what was not tried is left out."""
        parts = [f"{_FEATURES[name]} {_yes_or_no(getattr(self, name))}" for name in _FEATURES]
        known = [part for part, name in zip(parts, _FEATURES, strict=True) if getattr(self, name) is not None]
        return ", ".join([f"engine {self.engine if self.engine is not None else 'not known'}", *known])


_FEATURES = {
    "token_id_prompts": "token-id prompts",
    "logprobs": "logprobs",
    "cached_in_stream": "cached tokens in streams",
    "cached_in_whole": "cached tokens in whole answers",
    "salt": "cache salt",
    "bypass": "cache bypass",
    "flush": "flush",
    "speculation": "speculation",
    "deterministic": "declared deterministic",
}


def _yes_or_no(value: bool | int) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"top {value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One request with what came back; logprobs and token_ids are None if the server gave none.

    usages: every usage object of the answer, in its order; a stream may bring several. framing: None unless streamed.
    message_fields: names of the fields of its messages or deltas that held anything, as the server spells them.
    """

    record: Record
    logprobs: tuple[TokenLogprob, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    usages: tuple[Usage, ...] = ()
    framing: Framing | None = None
    message_fields: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens cost, in the currency of the answers' costs; None where nobody said.

    cached_input: of prompt tokens that came from the cache.
    """

    input: float | None = None
    cached_input: float | None = None
    output: float | None = None

    @property
    def complete(self) -> bool:
        """Whether the cost of an answer can be worked out."""
        return None not in (self.input, self.cached_input, self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step that was no request to the model; complete is None if it needs none or it was never written."""

    invoke: Invoke
    complete: Complete | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckHistory:
    """All rounds of one check, in the order in which requests were begun.

    `rounds` is how many there were; `Invoke.cell` ends in "-r0", "-r1", ... . counters: keyed by meaning
    (prompt_tokens, generation_tokens, cached_tokens, running, waiting, spec_drafts, ...), not by the engine's names.
    required: features that must be there. cut_short: why a round ended before its plan did, None if none did.
    other: what another server was asked for comparison. baseline: the same check in an earlier run that was named for
    it, None without one. expected_acceptance: the acceptance length that was named, None if none was. prices: those
    that were named.
    """

    answers: tuple[Answer, ...]
    capabilities: Capabilities
    steps: tuple[StepRecord, ...] = ()
    counters: tuple[CounterSample, ...] = ()
    rounds: int = 1
    required: frozenset[str] = frozenset()
    cut_short: str | None = None
    other: tuple[Answer, ...] = ()
    baseline: CheckHistory | None = None
    expected_acceptance: float | None = None
    prices: Prices = Prices()
