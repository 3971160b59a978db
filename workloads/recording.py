"""Plans and session shapes as traces, so that what is generated can be described like what was recorded."""

from __future__ import annotations

from collections.abc import Iterable

from workloads.agent_profile import AgentProfile
from workloads.agent_shape import whole_session
from workloads.plan import Ask, ChatPrompt, Generator, Phase, State
from workloads.text import CountTokens, prompt_tokens
from workloads.trace import Trace, TracedRequest


def agent_trace(profile: AgentProfile, seed: int, sessions: int) -> Trace:
    """Whole agent sessions as a trace of lengths, without any text."""
    requests = [
        TracedRequest(
            session=f"{index}",
            turn=turn,
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            think_s=call.think_s if turn else None,
            kind=call.kind,
            prefix_tokens=call.prefix_tokens,
        )
        for index in range(sessions)
        for turn, call in enumerate(whole_session(profile, seed, index).calls)
    ]
    return Trace(format="agent", source=f"{sessions} generated sessions, seed {seed}", requests=tuple(requests))


def plan_trace(plan: Generator[State], asks: Iterable[Ask], count: CountTokens) -> Trace:
    """The measured requests of a plan as a trace with text."""
    requests = [_traced(ask, count) for ask in asks if ask.phase is Phase.MEASURE]
    return Trace(format=plan.name, source=f"the {plan.name} workload", requests=tuple(requests))


def _traced(ask: Ask, count: CountTokens) -> TracedRequest:
    expected = ask.expected_prompt_tokens
    chat = ask.prompt if isinstance(ask.prompt, ChatPrompt) else None
    return TracedRequest(
        session=ask.key if ask.session is None else ask.session,
        turn=0 if ask.turn is None else ask.turn,
        input_tokens=prompt_tokens(ask.prompt, count) if expected is None else expected,
        output_tokens=ask.max_tokens,
        kind=None if chat is None else "tool" if chat.messages[-1].role == "tool" else "user",
        prompt=ask.prompt,
    )
