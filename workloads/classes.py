"""The "classes" workload: requests whose answers are easy or hard to draft, by class of content."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping

from workloads.plan import ChatPrompt, Json, Message
from workloads.sessions import Session, Turn
from workloads.single_turn import SingleTurnFamily
from workloads.text import cut_to_tokens, paragraphs, prompt_tokens, seeded
from workloads.tool_output import code, json_rows

DEFAULT_INPUT_TOKENS = 256
DEFAULT_OUTPUT_TOKENS = 64


def _identifiers(rng: random.Random, chars: int) -> str:
    return "\n".join(str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(chars // 37 + 1))


def _refrain(rng: random.Random, chars: int) -> str:
    line = paragraphs(rng, 40).split(".")[0]
    return "\n".join([line] * (chars // (len(line) + 1) + 1))


# What the prompt holds, and what is asked of the model: from hard to draft to easy.
CLASSES: Mapping[str, tuple[Callable[[random.Random, int], str], str]] = {
    "identifiers": (_identifiers, "Write ten more identifiers of this kind, all new."),
    "prose": (paragraphs, "Go on with this account in the same style."),
    "code": (code, "Go on with this module: write the next functions."),
    "json": (json_rows, "Write more rows of this array, with other values."),
    "refrain": (_refrain, "Repeat the line above again and again."),
}


class ClassesFamily(SingleTurnFamily):
    """Sessions of one turn; the classes take turns, and each request carries its class as a label."""

    name = "classes"
    default_input_tokens = DEFAULT_INPUT_TOKENS
    default_output_tokens = DEFAULT_OUTPUT_TOKENS
    own_spec: Mapping[str, Json] = {"classes": list(CLASSES)}

    def session(self, group: str, index: int, turns: int) -> Session:
        name = list(CLASSES)[index % len(CLASSES)]
        make, task = CLASSES[name]
        rng = seeded(self._seed, "classes", group, index)
        wanted = max(1, self._tokens - self._count(task))
        text = cut_to_tokens(lambda chars: make(rng, chars), wanted, self._count)
        prompt = ChatPrompt(messages=(Message(role="user", content=f"{text}\n\n{task}"),))
        turn = Turn(
            prompt=prompt,
            max_tokens=self._output_tokens,
            expected_prompt_tokens=prompt_tokens(prompt, self._count),
            labels={"class": name},
        )
        return Session(turns=(turn,) * turns)
