"""What has to be asked to know whether tools are called as the contract says: by force, by choice, not at all, again.

Every conversation is asked whole and streamed, cold and from the cache. Labels: `kind`, `expected` (the tool that fits,
None if none does), `schemas` (of the arguments, by tool), `form`, `value` (of a tool's result that has to be used).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workloads.control import NO_THINKING
from workloads.plan import Ask, ChatPrompt, Json, Message, ToolCall
from workloads.sequence import Sequence
from workloads.text import paragraphs, seeded
from workloads.tool_schemas import BOOK, CITIES, NOTE, SCHEMAS, TOOLS, UNITS, WEATHER, named

NAME = "tools"
VERSION = 1
REQUIRED, NAMED, AUTO, UNFIT, PARALLEL, SINGLE, GROUNDED, NONE = (
    "required", "named", "auto", "unfit", "parallel", "single", "grounded", "none",
)  # fmt: skip
KINDS = (REQUIRED, NAMED, AUTO, UNFIT, PARALLEL, SINGLE, GROUNDED, NONE)
FORCED = (REQUIRED, NAMED, SINGLE)
COLD, FILL, HIT = "cold", "fill", "hit"
# The arm and whether it is streamed; the fill is cold too.
TURNS = ((COLD, False), (FILL, True), (HIT, False), (HIT, True))
HANDBOOK_CHARS = 1600
ANSWER_TOKENS = 160
EARLIER_CALLS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsOptions:
    """Sizes of a plan. name: of the round. conversations: of every kind. salt: a fresh one keeps requests cold."""

    name: str
    seed: Json
    conversations: int = 3
    salt: bool = False

    def __post_init__(self) -> None:
        if self.conversations < 1:
            raise ValueError("tools: at least 1 conversation of every kind")

    def as_json(self) -> dict[str, Json]:
        """Plain data: what the plan depends on."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation that ends with a request, and what is known about the right answer."""

    messages: tuple[Message, ...]
    parameters: Mapping[str, Json]
    expected: str | None = None
    value: str | None = None


def tools(options: ToolsOptions) -> Sequence:
    """The plan of a round."""
    steps = tuple(
        ask for index in range(options.conversations) for kind in KINDS for ask in _asks(options, kind, index)
    )
    return Sequence(name=NAME, version=VERSION, steps=steps, parameters=options.as_json())


def _asks(options: ToolsOptions, kind: str, index: int) -> Iterator[Ask]:
    name = f"{options.name}/{kind}{index}"
    made = _MAKERS[kind](seeded(options.seed, NAME, name), index)
    for number, (arm, stream) in enumerate(TURNS):
        key = f"{name}/{number}"
        salted = arm == COLD and options.salt
        opening = (
            f"[{seeded(options.seed, NAME, key if arm == COLD and not options.salt else name).getrandbits(64):016x}]"
        )
        handbook = paragraphs(seeded(options.seed, NAME, name, "handbook"), HANDBOOK_CHARS)
        system = Message(role="system", content=f"{opening} You help in a hotel. Its handbook:\n{handbook}")
        salt: Mapping[str, Json] = {"cache_salt": f"{seeded(options.seed, key, 'salt').getrandbits(128):032x}"}
        yield Ask(
            key=key,
            prompt=ChatPrompt(messages=(system, *made.messages), tools=TOOLS),
            max_tokens=ANSWER_TOKENS,
            session=name,
            arm=arm,
            stream=stream,
            parameters={**NO_THINKING, **made.parameters, **(salt if salted else {})},
            labels={
                "kind": kind,
                "form": "stream" if stream else "whole",
                "expected": made.expected,
                "value": made.value,
                "schemas": SCHEMAS,
            },
        )


def _user(text: str) -> Message:
    return Message(role="user", content=text)


def _request(rng: random.Random, tool: str) -> str:
    """What somebody says who needs a tool."""
    city, name = rng.choice(CITIES), rng.choice(("Zoë", "José", "Nguyễn", "Anna"))
    return {
        WEATHER: f"What is the weather in {city} now, in {rng.choice(UNITS)}?",
        BOOK: f"Please book a room for {name}, a member, for {rng.randint(2, 9)} nights, with parking.",
        NOTE: f"Write a note with the title {name}; it is urgent and due on no special day.",
    }[tool]


def _arguments(rng: random.Random, tool: str) -> str:
    """Arguments that fit, as a model would write them."""
    made: Mapping[str, Json] = {
        WEATHER: {"city": rng.choice(CITIES), "unit": rng.choice(UNITS)},
        BOOK: {"guest": {"name": "Ida", "member": True}, "nights": rng.randint(2, 9), "extras": ["parking"]},
        NOTE: {"title": "keys", "urgent": False, "due_day": None},
    }
    return json.dumps(made[tool], ensure_ascii=False)


def _earlier(rng: random.Random, tool: str, number: int) -> tuple[Message, ...]:
    """A request, its call, the call's result, and what was said about it."""
    call_id = f"call_{rng.getrandbits(48):012x}"
    call = ToolCall(call_id=call_id, name=tool, arguments=_arguments(rng, tool))
    return (
        _user(_request(rng, tool)),
        Message(role="assistant", content=None, tool_calls=(call,)),
        Message(role="tool", content=f"Done, number {number}.", tool_call_id=call_id),
        Message(role="assistant", content=f"That is done, number {number}."),
    )


def _tool(index: int) -> str:
    return tuple(SCHEMAS)[index % len(SCHEMAS)]


def _required(rng: random.Random, index: int) -> Conversation:
    return Conversation(messages=(_user(_request(rng, _tool(index))),), parameters={"tool_choice": "required"})


def _named(rng: random.Random, index: int) -> Conversation:
    """Asked about one thing, and told to call the tool for another: the choice wins."""
    other = _tool(index + 1)
    return Conversation(
        messages=(_user(_request(rng, _tool(index))),), parameters={"tool_choice": named(other)}, expected=other
    )


def _auto(rng: random.Random, index: int) -> Conversation:
    """A request that a tool fits, after others that it fitted."""
    tool = _tool(index)
    earlier = [message for number in range(EARLIER_CALLS) for message in _earlier(rng, tool, number)]
    messages = (*earlier, _user(_request(rng, tool)))
    return Conversation(messages=messages, parameters={"tool_choice": "auto"}, expected=tool)


def _unfit(rng: random.Random, index: int) -> Conversation:
    """Small talk, which no tool fits."""
    said = rng.choice(("Thank you, that was all for today.", "Good morning! How are you?", "Tell me a short joke."))
    earlier = (_user("Hello."), Message(role="assistant", content="Hello, and welcome to our house."))
    return Conversation(messages=(*earlier, _user(said)), parameters={"tool_choice": "auto"})


def _parallel(rng: random.Random, index: int) -> Conversation:
    first, second = rng.sample(CITIES, 2)
    text = f"What is the weather in {first}, and what is it in {second}, both in {UNITS[0]}? Ask for both at once."
    parameters: Mapping[str, Json] = {"tool_choice": "auto", "parallel_tool_calls": True}
    earlier = _earlier(rng, WEATHER, 0)
    return Conversation(messages=(*earlier, _user(text)), parameters=parameters, expected=WEATHER)


def _single(rng: random.Random, index: int) -> Conversation:
    """Two things asked for, one call allowed."""
    asked = _parallel(rng, index).messages[-1:]
    return Conversation(messages=asked, parameters={"tool_choice": "required", "parallel_tool_calls": False})


def _grounded(rng: random.Random, index: int) -> Conversation:
    """A result that has to be read."""
    value = str(rng.randrange(3 * 10**6, 10**7))
    asked, call, result, _ = _earlier(rng, BOOK, index)
    told = Message(
        role="tool", content=json.dumps({"status": "booked", "code": value}), tool_call_id=result.tool_call_id
    )
    messages = (asked, call, told, _user("What is the code of the booking? Answer with the code alone."))
    return Conversation(messages=messages, parameters={"tool_choice": "auto"}, value=value)


def _none(rng: random.Random, index: int) -> Conversation:
    """A request that a tool fits, with calls forbidden."""
    return Conversation(messages=(_user(_request(rng, _tool(index))),), parameters={"tool_choice": "none"})


_MAKERS = {
    REQUIRED: _required,
    NAMED: _named,
    AUTO: _auto,
    UNFIT: _unfit,
    PARALLEL: _parallel,
    SINGLE: _single,
    GROUNDED: _grounded,
    NONE: _none,
}
