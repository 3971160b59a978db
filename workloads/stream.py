"""What has to be asked to know whether streamed and whole answers are the same answers: each prompt in both forms.

Requests go one after the other. Labels: `kind`, `form` ("whole", "stream"), `max_tokens`, `stop`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from workloads.material import Material, Segment
from workloads.phases import Past, Phased
from workloads.plan import Ask, ChatPrompt, Json, Message, Prompt, Step, TextPrompt
from workloads.text import question, seeded

NAME = "stream"
VERSION = 1
# The first of all is a miss; each form then has an answer before and after the other's.
FORMS = ("whole", "stream", "stream", "whole")
SHORTEST_TOKENS, LONGEST_TOKENS = 24, 320
FEWEST_STOP_CHARS = 3
# Words whose letters take several bytes, so that a token may end inside one.
WIDE_TEXTS = (
    "Žluťoučký kůň úpěl ďábelské ódy. Ελληνικά γράμματα. Ещё немного: съешь этих мягких булок. 日本語の文章です。",
    "naïve café, 價格 £12 → €15; emoji: 🙂🙃🚀 — “quoted”, 'apostrophes', and a tab\tin between. Следующая строка:",
)
TOOL: Mapping[str, Json] = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Looks a word up.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Sizes of a plan.

    name: what prompts of this round are called. chat: messages can be asked, so reasoning and tools too. fields: of
    every request, for log-probabilities. ids: the server gives token ids on demand. continuous: it can put usage into
    every event.
    """

    name: str = "r0"
    prompts: int = 8
    output_tokens: int = 32
    chat: bool = False
    ids: bool = False
    continuous: bool = False
    fields: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.prompts < 1:
            raise ValueError("at least 1 prompt has to be asked in both forms")


def stream(material: Material, options: StreamOptions) -> Phased:
    """The plan: plain answers, then ends of every kind, then what only chats have."""
    return Phased(
        name=NAME,
        version=VERSION,
        phases=(
            lambda past: tuple(_plain(material, options)),
            lambda past: tuple(_ends(options, past)),
            lambda past: tuple(_chats(options, material.seed)) if options.chat else (),
        ),
        parameters={
            "seed": material.seed,
            "name": options.name,
            "prompts": options.prompts,
            "output_tokens": options.output_tokens,
            "chat": options.chat,
            "ids": options.ids,
            "continuous": options.continuous,
            "fields": options.fields,
        },
    )


def _plain(material: Material, options: StreamOptions) -> Iterator[Step]:
    for index in range(options.prompts):
        base = _ask(options, f"plain{index}", "plain", _prompt(material, options, index))
        yield from _both_forms(base)
        if options.continuous and index % 2 == 0:
            every = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
            yield _formed(replace(base, parameters={**base.parameters, **every}), "stream", "continuous")


def _prompt(material: Material, options: StreamOptions, index: int) -> Prompt:
    """Ordinary text of growing length; the last ones hold characters of several bytes."""
    wide = options.prompts - 1 - index
    if wide < len(WIDE_TEXTS) and options.prompts > len(WIDE_TEXTS):
        return TextPrompt(text=f"[{material.salt(options.name)[:12]}] " + "\n".join([WIDE_TEXTS[wide]] * 2))
    share = index / max(1, options.prompts - 1)
    tokens = round(SHORTEST_TOKENS + share * (LONGEST_TOKENS - SHORTEST_TOKENS))
    return material.prompt([Segment(name=f"{options.name}/stream{index}", tokens=tokens)])


def _both_forms(base: Ask) -> Iterator[Ask]:
    for number, form in enumerate(FORMS):
        yield _formed(base, form, str(number))


def _formed(base: Ask, form: str, mark: str) -> Ask:
    labels = {**base.labels, "form": form, "continuous": mark == "continuous"}
    return replace(base, key=f"{base.key}/{mark}", stream=form == "stream", labels=labels)


def _ask(
    options: StreamOptions,
    name: str,
    kind: str,
    prompt: Prompt,
    max_tokens: int | None = None,
    parameters: Mapping[str, Json] | None = None,
) -> Ask:
    tokens = options.output_tokens if max_tokens is None else max_tokens
    own = {} if parameters is None else parameters
    ids: Mapping[str, Json] = {"return_token_ids": True} if options.ids else {}
    return Ask(
        key=f"{options.name}/{name}",
        prompt=prompt,
        max_tokens=tokens,
        session=f"{options.name}/{name}",
        arm=kind,
        parameters={**options.fields, **ids, **own},
        labels={"kind": kind, "max_tokens": tokens, "stop": own.get("stop")},
    )


def _ends(options: StreamOptions, past: Past) -> Iterator[Step]:
    """Answers of one token, and answers that end on a word of their own."""
    first = {ask.session: ask for ask in reversed(past.asks)}
    for index in range(0, options.prompts, 2):
        plain = first.get(f"{options.name}/plain{index}")
        if plain is None:
            continue
        yield from _both_forms(_ask(options, f"one{index}", "one", plain.prompt, max_tokens=1))
        word = _stop_word(past, plain.key)
        if word is not None:
            yield from _both_forms(_ask(options, f"stop{index}", "stop", plain.prompt, parameters={"stop": [word]}))


def _stop_word(past: Past, key: str) -> str | None:
    """A word from the middle of an answer that does not stand at its start; None if it has no such word."""
    seen = past.seen.get(key)
    words = seen.text.split() if seen is not None and seen.text is not None else []
    later = [word for word in words[len(words) // 2 :] if len(word) >= FEWEST_STOP_CHARS and word.isascii()]
    return later[0] if later else None


def _chats(options: StreamOptions, seed: Json) -> Iterator[Step]:
    """A tool call that has to come, and an answer after reasoning."""
    for index in range(2):
        rng = seeded(seed, options.name, "chat", index)
        message = Message(role="user", content=f"Look up the word {rng.choice(('harbour', 'lantern', 'orchard'))}.")
        required = ChatPrompt(messages=(message,), tools=(TOOL,))
        yield from _both_forms(
            _ask(options, f"tool{index}", "tool", required, 2 * options.output_tokens, {"tool_choice": "required"})
        )
        asked = ChatPrompt(messages=(Message(role="user", content=question(rng)),))
        thinking: Mapping[str, Json] = {"chat_template_kwargs": {"enable_thinking": True}}
        yield from _both_forms(
            _ask(options, f"reasoning{index}", "reasoning", asked, 4 * options.output_tokens, thinking)
        )
