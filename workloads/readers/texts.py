"""Datasets that give text: vLLM custom, OpenAI, ShareGPT, AIPerf multi-turn, agentic conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workloads.plan import ChatPrompt, Message, TextPrompt
from workloads.readers.rows import Row, chat_message, chat_prompt, number, objects, optional_count, text_of
from workloads.trace import TracedRequest

MS_PER_S = 1000
# Stands where a dataset has no recorded answer; the model's own takes its place in live sessions.
NO_ANSWER = "(no answer was recorded)"
_SHAREGPT_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "assistant": "assistant",
    "system": "system",
    "tool": "tool",
}


class _Numbered:
    """Names sessions by the number of their row."""

    block_tokens = None

    def __init__(self) -> None:
        self._rows = 0

    def _next(self) -> str:
        self._rows += 1
        return f"{self._rows - 1}"


class VllmCustom(_Numbered):
    """`prompt` and, if wanted, `output_tokens`."""

    def __call__(self, row: Row) -> Iterator[TracedRequest]:
        prompt = TextPrompt(text=text_of(row, "prompt"))
        yield TracedRequest(
            session=self._next(), turn=0, prompt=prompt, output_tokens=optional_count(row, "output_tokens"), kind="user"
        )


class OpenAiChat(_Numbered):
    """`messages`, `tools`, `max_tokens` or `max_completion_tokens`; also inside `body`, as batch files have them."""

    def __call__(self, row: Row) -> Iterator[TracedRequest]:
        body = row.get("body")
        row = body if not isinstance(body, str | Sequence | int | float | None) else row
        prompt = chat_prompt(row)
        yield TracedRequest(
            session=self._next(),
            turn=0,
            prompt=prompt,
            output_tokens=optional_count(row, "max_completion_tokens", "max_tokens"),
            kind=_kind(prompt.messages),
        )


class ShareGpt(_Numbered):
    """`conversations` of `from` and `value`; every answer is a request with all that was said before it."""

    def __call__(self, row: Row) -> Iterator[TracedRequest]:
        session = self._next()
        messages = [
            Message(role=_role(text_of(each, "from")), content=text_of(each, "value"))
            for each in objects(row, "conversations")
        ]
        yield from _answers(session, messages, ())


class AgenticConversations(_Numbered):
    """`conversations` of `role` and `content` in OpenAI's terms, `tools` if any; every answer is a request."""

    def __call__(self, row: Row) -> Iterator[TracedRequest]:
        session = self._next()
        messages = [chat_message(each) for each in objects(row, "conversations")]
        yield from _answers(session, messages, tuple(objects(row, "tools")) if row.get("tools") else ())


class AiperfMultiTurn(_Numbered):
    """`session_id` and `turns` of `text` and `delay` ms after the answer before; answers are the model's own."""

    def __call__(self, row: Row) -> Iterator[TracedRequest]:
        number_of_row = self._next()
        session = str(row.get("session_id", number_of_row))
        messages: list[Message] = []
        for turn, each in enumerate(objects(row, "turns")):
            if messages:
                messages.append(Message(role="assistant", content=NO_ANSWER))
            messages.append(Message(role="user", content=text_of(each, "text")))
            delay = number(each, "delay") / MS_PER_S if each.get("delay") is not None else None
            yield TracedRequest(
                session=session,
                turn=turn,
                prompt=ChatPrompt(messages=tuple(messages)),
                output_tokens=optional_count(each, "output_length", "max_tokens"),
                think_s=delay if turn else None,
                kind="user",
            )


def _answers(session: str, messages: Sequence[Message], tools: tuple[Row, ...]) -> Iterator[TracedRequest]:
    """A request for every assistant message that has something before it; ValueError if there is none."""
    turn = 0
    for at, message in enumerate(messages):
        if message.role != "assistant" or at == 0:
            continue
        yield TracedRequest(
            session=session,
            turn=turn,
            prompt=ChatPrompt(messages=tuple(messages[:at]), tools=tools),
            output_text=_said(message),
            kind=_kind(messages[:at]),
        )
        turn += 1
    if turn == 0:
        raise ValueError("a conversation needs an answer after something that was said")


def _said(message: Message) -> str:
    calls = "".join(f"{call.name}{call.arguments}" for call in message.tool_calls)
    return (message.content or "") + calls


def _kind(messages: Sequence[Message]) -> str:
    return "tool" if messages[-1].role == "tool" else "user"


def _role(given: str) -> str:
    if given not in _SHAREGPT_ROLES:
        raise ValueError(f"nobody is called {given!r:.40} in a conversation")
    return _SHAREGPT_ROLES[given]
