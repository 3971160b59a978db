"""What servers say of drafted and accepted tokens, in one answer or in their counters, brought to one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.plan import Json

_ACCOUNTS = frozenset({"metrics", "timings", "sglext", "meta_info"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """Verify steps and what they gave.

    accepted: drafts that were emitted; the token that every step adds by itself is not one of them. drafted: None if
    not told. depth: drafts of a full step, None if not told. histogram: steps by number of accepted drafts, from 0;
    None if not told. inferred: the number of steps was worked out from the length of the answer, so that the answer's
    length proves nothing.
    """

    steps: int
    accepted: int
    drafted: int | None = None
    depth: int | None = None
    histogram: tuple[int, ...] | None = None
    inferred: bool = False

    @property
    def acceptance_length(self) -> float | None:
        """1 + accepted / steps; None without steps."""
        return 1 + self.accepted / self.steps if self.steps > 0 else None


def drafts_of(extra: Mapping[str, Json], completion_tokens: int | None) -> Drafts | None:
    """The account of one answer by its own fields; None if there is none.

    vLLM: `metrics.speculative_decoding`. llama.cpp: `timings.draft_n`, without a number of steps; an answer has a token
    from its prompt and one from each step beside the accepted drafts. SGLang: `sglext.spec_tokens_details`, or
    `meta_info` of its own route.
    """
    if not extra.keys() & _ACCOUNTS:
        return None
    found = _vllm(_under(extra, "metrics", "speculative_decoding"))
    if found is None:
        found = _llama_cpp(_under(extra, "timings"), completion_tokens)
    for path in (("sglext", "spec_tokens_details"), ("meta_info",)):
        if found is None:
            found = _sglang(_under(extra, *path))
    return found


def _under(extra: Mapping[str, Json], *path: str) -> Mapping[str, Json]:
    value: Json = extra
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _vllm(fields: Mapping[str, Json]) -> Drafts | None:
    steps, accepted = _whole(fields.get("num_spec_steps")), _whole(fields.get("num_accepted_draft_tokens"))
    if steps is None or accepted is None:
        return None
    histogram = fields.get("acceptance_histogram")
    counts = [_whole(count) for count in histogram] if isinstance(histogram, list | tuple) else [None]
    return Drafts(
        steps=steps,
        accepted=accepted,
        drafted=_whole(fields.get("num_draft_tokens")),
        depth=_whole(fields.get("num_spec_tokens")),
        histogram=None if None in counts else tuple(count for count in counts if count is not None),
    )


def _llama_cpp(timings: Mapping[str, Json], completion_tokens: int | None) -> Drafts | None:
    drafted, accepted = _whole(timings.get("draft_n")), _whole(timings.get("draft_n_accepted"))
    predicted = _whole(timings.get("predicted_n"))
    tokens = completion_tokens if predicted is None else predicted
    if drafted is None or accepted is None or tokens is None:
        return None
    return Drafts(steps=max(0, tokens - 1 - accepted), accepted=accepted, drafted=drafted, inferred=True)


def _sglang(fields: Mapping[str, Json]) -> Drafts | None:
    steps = _whole(fields.get("spec_verify_ct"))
    accepted = _first(fields, "spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
    if steps is None or accepted is None:
        return None
    drafted = _first(fields, "spec_num_proposed_drafts", "spec_draft_token_num")
    return Drafts(steps=steps, accepted=accepted, drafted=drafted)


def _first(fields: Mapping[str, Json], *names: str) -> int | None:
    return next((value for name in names if (value := _whole(fields.get(name))) is not None), None)


def _whole(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def counted_drafts(before: Mapping[str, float], after: Mapping[str, float], answers: int = 0) -> Drafts | None:
    """What the counters moved by, keyed by meaning; None if they do not count drafts.

    answers: that came whole in between; SGLang counts verify steps alone, and accepted drafts are then what its
    generated tokens leave beside a token for each step and one for each answer's prompt.
    """
    if "spec_drafts" not in before or "spec_drafts" not in after:
        return None
    steps = _moved(before, after, "spec_drafts")
    accepted, generated = _moved(before, after, "spec_accepted"), _moved(before, after, "generation_tokens")
    if steps is None or steps < 0:
        return None
    drafted = _moved(before, after, "spec_draft_tokens")
    if accepted is not None:
        return Drafts(steps=steps, accepted=accepted, drafted=drafted, histogram=_histogram(before, after, steps))
    if generated is None:
        return None
    return Drafts(steps=steps, accepted=max(0, generated - steps - answers), drafted=drafted, inferred=True)


def accepted_at(position: int) -> str:
    """What the count of drafts accepted at a position of a step, from 0, is called among counters by meaning."""
    return f"spec_accepted_at_{position}"


def _histogram(before: Mapping[str, float], after: Mapping[str, float], steps: int) -> tuple[int, ...] | None:
    """Steps by number of accepted drafts: a step that accepted draft i accepted all before it. None if not counted."""
    depth = 0
    while accepted_at(depth) in after:
        depth += 1
    if not depth:
        return None
    moved = [round(after[accepted_at(i)] - before.get(accepted_at(i), 0.0)) for i in range(depth)]
    at_least = [steps, *moved, 0]
    return tuple(at_least[number] - at_least[number + 1] for number in range(depth + 1))


def _moved(before: Mapping[str, float], after: Mapping[str, float], name: str) -> int | None:
    return round(after[name] - before[name]) if name in before and name in after else None
