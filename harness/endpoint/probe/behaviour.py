"""What the model's side does: tool calls, reasoning, seeds, cancellation."""

from __future__ import annotations

from harness.clock import NS_PER_S
from harness.endpoint.counters import total
from harness.endpoint.probe.prober import Prober, Seen
from harness.endpoint.probe.result import Capability
from harness.endpoint.probe.running import running, sampled, until_running
from harness.records import CounterSample
from workloads.plan import ChatPrompt, Json, Message

CALL_TOKENS = 64
REASONING_TOKENS = 48
SEEDED_TOKENS = 12
CUT_TOKENS = 384
SETTLE_NS = 4 * NS_PER_S
_TOOL: Json = {
    "type": "function",
    "function": {
        "name": "note_city",
        "description": "Write a city down.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


async def look_at_behaviour(prober: Prober) -> dict[str, Capability]:
    """Each with a few tiny requests; none of them disturbs anybody.

    Seeds come last: they are what a known engine (vLLM on a CPU, 0.32) has died of.
    """
    return {
        "tool_calls": await _tool_calls(prober),
        "reasoning": await _reasoning(prober),
        "cancellation": await _cancellation(prober),
        "seed": await _seed(prober),
    }


def _chat(prober: Prober, name: str, text: str, *, tool: bool = False) -> ChatPrompt:
    messages = (Message(role="user", content=f"[{prober.nonce} {name}] {text}"),)
    return ChatPrompt(messages=messages, tools=(_TOOL,) if tool and isinstance(_TOOL, dict) else ())


async def _tool_calls(prober: Prober) -> Capability:
    """A required call; where that is refused, whether the model calls by itself."""
    name = "tool_calls"
    prompt = _chat(prober, name, "Write the city of Lisbon down with the tool.", tool=True)
    refusal: Seen | None = None
    for choice in ("required", "auto"):
        seen = await prober.ask(
            f"tool-{choice}", prompt, max_tokens=CALL_TOKENS, fields={"tool_choice": choice}, route="chat"
        )
        if not seen.ok:
            refusal = seen if refusal is None else refusal
            continue
        if seen.reading.tool_calls:
            called = ", ".join(call.name for call in seen.reading.tool_calls)
            return prober.verdict(name, True, f"tool_choice {choice}: {called} was called")
        if choice == "required":
            cut = seen.reading.finish_reason == "length"
            why = "no call within 64 tokens" if cut else "tool_choice required, and no call came"
            return prober.verdict(name, None if cut else False, why)
    if refusal is not None:
        return refusal.refused(prober.enabled_by(name))
    return prober.verdict(name, None, "the model was free to call and did not")


async def _reasoning(prober: Prober) -> Capability:
    """Reasoning in its own field; which of the two names it has is told.

    Streamed: SGLang's ling3 parser moves a whole answer that is all reasoning into the content.
    """
    name = "reasoning"
    fields: dict[str, Json] = {"chat_template_kwargs": {"enable_thinking": True}}
    seen = await prober.ask(
        name,
        _chat(prober, name, "What is 17 + 25?"),
        max_tokens=REASONING_TOKENS,
        stream=True,
        fields=fields,
        route="chat",
    )
    if not seen.ok:
        return seen.refused(prober.enabled_by(name))
    body = seen.answer.body
    fields_seen = [each for each in ("reasoning_content", "reasoning") if f'"{each}":'.encode() in body]
    if seen.reading.reasoning:
        return prober.verdict(name, True, f"field {fields_seen[0] if fields_seen else 'reasoning'}")
    where = f"; the field {fields_seen[0]} is there and empty" if fields_seen else ""
    return prober.verdict(name, None, f"none came in {REASONING_TOKENS} tokens{where}")


async def _seed(prober: Prober) -> Capability:
    """Two samples with one seed and one with another; all alike says nothing."""
    answers = []
    for index, seed in enumerate((7, 7, 8)):
        fields: dict[str, Json] = {"temperature": 1, "seed": seed}
        answers.append(await prober.ask(f"seed-{index}", prober.text("seed"), max_tokens=SEEDED_TOKENS, fields=fields))
    failed = next((seen for seen in answers if not seen.ok), None)
    if failed is not None:
        return failed.refused(prober.enabled_by("seed"))
    one, same, other = (seen.reading.text for seen in answers)
    if one != same:
        return prober.verdict("seed", False, "two samples with one seed differ")
    if one == other:
        return prober.verdict("seed", None, "another seed gave the same answer too")
    return prober.verdict("seed", True, "the same with one seed, another with another")


async def _cancellation(prober: Prober) -> Capability:
    """A stream is dropped after its first piece: the server must stop before it has generated everything."""
    name = "cancellation"
    before = await sampled(prober)
    room = CUT_TOKENS if prober.max_model_len is None else min(CUT_TOKENS, prober.max_model_len // 4)
    fields: dict[str, Json] = {} if prober.dialect.forbids_unknown_fields else {"ignore_eos": True}
    seen = await prober.ask(
        name, prober.text(name), max_tokens=max(8, room), stream=True, fields=fields, abort_after_events=1
    )
    if not seen.ok and not seen.dropped:
        return seen.refused(prober.enabled_by(name))
    if before is None:
        return prober.verdict(name, None, "cannot be seen without counters")
    after = await until_running(prober, before, more=False, limit_ns=SETTLE_NS)
    later = after
    if (running(prober, after) or 0) > (running(prober, before) or 0):
        await prober.clock.sleep_until(prober.clock.now_ns() + NS_PER_S)
        found = await sampled(prober)
        later = after if found is None else found
    return judge_cancellation(prober, (before, after, later), room)


def judge_cancellation(
    prober: Prober, samples: tuple[CounterSample, CounterSample, CounterSample], asked: int
) -> Capability:
    """Running requests back where they were, and fewer tokens generated than were asked for.

    samples: before, when it had ended or was given up, and a second after that, where it had not ended.
    """
    name = "cancellation"
    was, now = running(prober, samples[0]), running(prober, samples[1])
    if was is None or now is None:
        return prober.verdict(name, None, "the counters do not tell how many requests run")
    made, after_that = (_generated(prober, samples[at], samples[at + 1]) for at in (0, 1))
    if now > was and after_that == 0:
        return prober.verdict(name, None, "it is still counted as running, but generates nothing any more")
    if now > was:
        return prober.verdict(name, False, f"still running {SETTLE_NS / NS_PER_S:.0f} s after it was dropped")
    if made is None:
        return prober.verdict(name, None, "it ended; the counters do not tell what it generated")
    if made >= asked:
        return prober.verdict(name, None, f"{made} tokens were generated meanwhile; too fast, or others use the server")
    return prober.verdict(name, True, f"dropped after the first piece of {asked} tokens; {made} are counted")


def _generated(prober: Prober, first: CounterSample, last: CounterSample) -> int | None:
    """Tokens generated in between; None if the counters do not tell."""
    begun, ended = (total(sample, prober.dialect.name, "generation_tokens") for sample in (first, last))
    return None if begun is None or ended is None else round(ended - begun)
