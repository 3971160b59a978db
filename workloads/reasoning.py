"""What has to be asked to know whether thinking is switched, told apart and streamed as it should be.

Every question is asked with thinking on, off, and as the server likes it, whole and streamed. Labels: `mode`, `form`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workloads.plan import Ask, ChatPrompt, Json, Message
from workloads.sequence import Sequence
from workloads.text import question, seeded, sentence

NAME = "reasoning"
VERSION = 1
ON, OFF, DEFAULT = "on", "off", "default"
WHOLE, STREAM = "whole", "stream"
# With thinking on each form has an answer on either side of the other's, so that each can be seen to repeat itself.
TURNS = (
    (ON, WHOLE), (ON, STREAM), (ON, STREAM), (ON, WHOLE), (OFF, WHOLE), (OFF, STREAM), (DEFAULT, WHOLE),
    (DEFAULT, STREAM),
)  # fmt: skip
ANSWER_TOKENS = 160
# Turns without thinking before the question.
EARLIER = 2
_SWITCH: Mapping[str, Mapping[str, Json]] = {
    ON: {"chat_template_kwargs": {"enable_thinking": True}},
    OFF: {"chat_template_kwargs": {"enable_thinking": False}},
    DEFAULT: {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningOptions:
    """Sizes of a plan. name: of the round. answer_tokens: room for thinking and answer."""

    name: str
    seed: Json
    questions: int = 4
    answer_tokens: int = ANSWER_TOKENS

    def __post_init__(self) -> None:
        if self.questions < 1:
            raise ValueError("reasoning: at least 1 question")

    def as_json(self) -> dict[str, Json]:
        """Plain data: what the plan depends on."""
        return {name: getattr(self, name) for name in self.__slots__}


def reasoning(options: ReasoningOptions) -> Sequence:
    """The plan of a round."""
    steps = tuple(ask for index in range(options.questions) for ask in _asks(options, index))
    return Sequence(name=NAME, version=VERSION, steps=steps, parameters=options.as_json())


def _asks(options: ReasoningOptions, index: int) -> Iterator[Ask]:
    name = f"{options.name}/q{index}"
    rng = seeded(options.seed, NAME, name)
    opening = f"[{rng.getrandbits(48):012x}] "
    earlier = [message for number in range(EARLIER) for message in _turn(rng, "" if number else opening)]
    prompt = ChatPrompt(messages=(*earlier, Message(role="user", content=question(rng))))
    for number, (mode, form) in enumerate(TURNS):
        yield Ask(
            key=f"{name}/{number}",
            prompt=prompt,
            max_tokens=options.answer_tokens,
            session=name,
            arm=mode,
            stream=form == STREAM,
            parameters=_SWITCH[mode],
            labels={"mode": mode, "form": form},
        )


def _turn(rng: random.Random, opening: str) -> tuple[Message, Message]:
    """A question and a plain answer."""
    answer = f"{sentence(rng)} {sentence(rng)}"
    return Message(role="user", content=opening + question(rng)), Message(role="assistant", content=answer)
