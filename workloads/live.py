"""The model's own answers as a session's assistant turns: what is sent on instead of the script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workloads.plan import Message, Observation

NOT_CARRIED_OUT = "This call was not carried out."
TOOL_SAID = "The tool printed:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a session has sent, and the model's answer to it; None until it came, or if nothing usable did."""

    messages: tuple[Message, ...]
    answer: Message | None = None

    def answered(self, observation: Observation) -> Said:
        """With the answer of an observation; its reasoning is not part of what is sent back."""
        calls = tuple(
            replace(call, call_id=call.call_id or f"call_{len(self.messages)}_{number}")
            for number, call in enumerate(observation.tool_calls)
        )
        if observation.outcome != "ok" or not (observation.text or calls):
            return self
        return Said(
            messages=self.messages, answer=Message(role="assistant", content=observation.text or None, tool_calls=calls)
        )

    def then(self, script: Sequence[Message]) -> tuple[Message, ...]:
        """The next request's messages; `script` is the scripted answer and what comes after it.

        Scripted tool results go to the calls that the model made; without a call they come as the user's words.
        """
        if self.answer is None:
            return (*self.messages, *script)
        return (*self.messages, self.answer, *_addressed(self.answer, script[1:]))


def _addressed(answer: Message, brought: Sequence[Message]) -> list[Message]:
    """Every call of the answer with a result, then what could not be addressed to a call."""
    results = [message for message in brought if message.role == "tool"]
    addressed: list[Message] = []
    for number, call in enumerate(answer.tool_calls):
        content = results[number].content if number < len(results) else NOT_CARRIED_OUT
        addressed.append(Message(role="tool", content=content, tool_call_id=call.call_id))
    loose = results[len(answer.tool_calls) :]
    as_words = [Message(role="user", content=f"{TOOL_SAID}\n{message.content}") for message in loose]
    return [*addressed, *as_words, *(message for message in brought if message.role != "tool")]
