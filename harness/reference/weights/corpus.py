"""Text the tokenizer and the output head are fitted to: made by a small seeded grammar, so that it needs no files.

The text is original to this project and under its licence. It is not meant to teach prose: it gives the common words,
transcripts, JSON and code that requests to the engine are made of.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_DETERMINERS = _words(
    """
    the a this that each every one another our their its some any no
    """
)
_ADJECTIVES = _words(
    """
    new old small large long short early late quiet busy open closed local remote first last next common simple
    green white dark bright cold warm narrow wide heavy light empty full useful careful public private daily
    main
    """
)
_NOUNS = _words(
    """
    house river road garden market school letter table window door book page line city village station train
    ship harbour bridge mountain field forest winter summer morning evening hour day week month year people
    teacher child doctor engineer writer reader question answer reason result problem system server request
    response message file model state cache token block layer memory test number value name word list key code
    report table record water stone paper light sound story history country company office machine engine clock
    map plan price part end side place world hand head eye face family friend mother father king law war work
    money music game team group order change point case fact idea study process program service community
    government research information development
    """
)
_VERBS = _words(
    """
    is was has had does made took found gave told asked needs wants keeps holds opens closes moves brings
    leaves reads writes shows follows starts stops turns runs sends returns calls builds covers crosses reaches
    changes counts remembers forgets knows thinks believes understands expects provides requires includes
    contains produces becomes
    """
)
_PREPOSITIONS = _words(
    """
    of to in for with on at from by about into over after before between under through without against
    """
)
_CONNECTIVES = _words(
    """
    and or but because when while if although so then however therefore after all in fact for example as a
    result at last
    """
)
_ADVERBS = _words(
    """
    very quite always never often usually again already still only just even almost slowly quickly clearly
    """
)
_PRONOUNS = _words(
    """
    I you he she it we they who there which what
    """
)
_MODALS = _words(
    """
    can could will would should may might must did not do have been be are were than more most other
    """
)
_NAMES = _words(
    """
    Anna Ben Clara David Emma Frank Grace Henry Iris Jack Kate Leo Maria Noah Olga Paul Rosa Sam Tom Vera
    """
)
_TOOLS = ("read_file", "search", "run_tests", "list_files", "get_weather", "calculate", "write_file", "fetch_page")
_ARGUMENTS = ("path", "query", "city", "pattern", "limit", "command", "url", "expression")


def prose(rng: Random, sentences: int) -> str:
    """Sentences of common words with English function-word frequencies; paragraphs of about six."""
    out = []
    for index in range(sentences):
        sentence = _clause(rng)
        while rng.random() < 0.35:
            sentence += f"{',' if rng.random() < 0.4 else ''} {_pick(rng, _CONNECTIVES)} {_clause(rng)}"
        gap = "\n\n" if index % 6 == 5 else " "
        out.append(sentence[0].upper() + sentence[1:] + rng.choice("........?!") + gap)
    return "".join(out)


def transcript(rng: Random, turns: int) -> str:
    """An agent's conversation in the chat format: questions, tool calls in JSON, results, answers."""
    out = [f"<|im_start|>system\nYou are a helpful assistant. {prose(rng, 2).strip()}<|im_end|>\n"]
    for _ in range(turns):
        out.append(f"<|im_start|>user\n{prose(rng, 1).strip()}<|im_end|>\n<|im_start|>assistant\n")
        if rng.random() < 0.7:
            call = {"name": rng.choice(_TOOLS), "arguments": {rng.choice(_ARGUMENTS): _scalar(rng)}}
            out.append(f"<tool_call>\n{json.dumps(call)}\n</tool_call><|im_end|>\n<|im_start|>tool\n")
            out.append(f"{rng.choice((records, code, prose))(rng, 3).strip()}<|im_end|>\n<|im_start|>assistant\n")
        elif rng.random() < 0.3:
            out.append(f"<think>\n{prose(rng, 1).strip()}\n</think>\n")
        out.append(f"{prose(rng, 2).strip()}<|im_end|>\n")
    return "".join(out)


def records(rng: Random, rows: int) -> str:
    """JSON rows of one shape."""
    keys = rng.sample(_NOUNS, 3)
    lines = [json.dumps({"id": index + 1, **{key: _scalar(rng) for key in keys}}) for index in range(rows)]
    return "[" + ",\n ".join(lines) + "]\n"


def code(rng: Random, functions: int) -> str:
    """Small Python functions."""
    out = []
    for _ in range(functions):
        name, first, second = (_pick(rng, _NOUNS) for _ in range(3))
        out.append(
            f"def {_pick(rng, _VERBS)}_{name}({first}, {second}=None):\n"
            f'    """{prose(rng, 1).strip()}"""\n'
            f"    for {name} in range({rng.randrange(100)}):\n"
            f"        if {first}[{name}] {rng.choice(('==', '!=', '<', '>='))} {second}:\n"
            f"            return self.{_pick(rng, _NOUNS)}({first}, {second})\n"
            f"    {second} = {first} + {rng.randrange(10)}\n    return {second}\n\n\n"
        )
    return "".join(out)


def facts(rng: Random, count: int, filler_sentences: int) -> str:
    """Facts ("key K17 is 4821."), prose between them, then the same facts once more in another order."""
    keys = rng.sample(range(10, 100), count)
    values = {key: rng.randrange(1000, 10000) for key in keys}
    again = rng.sample(keys, count)
    stated = [f"key K{key} is {values[key]}. " for key in (*keys, *again)]
    return "".join(fact + prose(rng, rng.randrange(filler_sentences + 1)) for fact in stated)


def corpus(seed: int, documents: int) -> list[str]:
    """Documents of all kinds but facts, in turn."""
    rng = Random(seed)
    makers = (
        lambda: prose(rng, 40),
        lambda: transcript(rng, 6),
        lambda: prose(rng, 40),
        lambda: records(rng, 25) if rng.random() < 0.5 else code(rng, 6),
    )
    return [makers[index % len(makers)]() for index in range(documents)]


def _pick(rng: Random, words: Sequence[str]) -> str:
    """A word, the ones listed first being the most frequent."""
    return words[int(len(words) * rng.random() ** 1.8)]


def _clause(rng: Random) -> str:
    subject = _pick(rng, _PRONOUNS) if rng.random() < 0.25 else _noun_phrase(rng)
    verb = f"{_pick(rng, _MODALS)} {_pick(rng, _VERBS)}" if rng.random() < 0.2 else _pick(rng, _VERBS)
    adverb = f"{_pick(rng, _ADVERBS)} " if rng.random() < 0.2 else ""
    out = f"{subject} {adverb}{verb} {_noun_phrase(rng)}"
    while rng.random() < 0.45:
        out += f" {_pick(rng, _PREPOSITIONS)} {_number_phrase(rng) if rng.random() < 0.08 else _noun_phrase(rng)}"
    return out


def _noun_phrase(rng: Random) -> str:
    if rng.random() < 0.1:
        return _pick(rng, _NAMES)
    adjective = f"{_pick(rng, _ADJECTIVES)} " if rng.random() < 0.35 else ""
    return f"{_pick(rng, _DETERMINERS)} {adjective}{_pick(rng, _NOUNS)}"


def _number_phrase(rng: Random) -> str:
    return f"{rng.randrange(2, 1000)} {_pick(rng, _NOUNS)}s"


def _scalar(rng: Random) -> str | int | float | bool:
    kind = rng.random()
    if kind < 0.4:
        return rng.randrange(1000)
    if kind < 0.5:
        return round(rng.random() * 100, 1)
    if kind < 0.6:
        return rng.random() < 0.5
    joint = " " if kind < 0.8 else "/"
    return f"{_pick(rng, _ADJECTIVES)}{joint}{_pick(rng, _NOUNS)}{'' if kind < 0.8 else '.py'}"
