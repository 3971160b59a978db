"""Every text an automaton lets through is valid JSON of its schema, and every text ends."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reference.constraint.automaton import Automaton, Chain, Chars, Either, Literal
from harness.reference.constraint.base import Constraint
from harness.reference.constraint.chat import Forms, Tool
from harness.reference.constraint.schema import SchemaError, node_of
from harness.reference.tokenizer import Tokenizer

FORMS = Forms(Tokenizer.load())

leaves: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({"type": "string"}),
    st.just({"type": "string", "minLength": 2, "maxLength": 4}),
    st.just({"type": "integer"}),
    st.just({"type": "number"}),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({"enum": ["a b", 3, None, {"x": [1]}]}),
    st.just({"const": "only"}),
    st.just({"type": ["integer", "null"]}),
)


def containers(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.lists(st.sampled_from(["a", "b", "long name", 'quo"te']), unique=True, max_size=3)
    objects = names.flatmap(
        lambda keys: st.builds(
            lambda values, wanted: {
                "type": "object",
                "properties": dict(zip(keys, values, strict=True)),
                "required": [key for key, want in zip(keys, wanted, strict=True) if want],
            },
            st.lists(inner, min_size=len(keys), max_size=len(keys)),
            st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)),
        )
    )
    arrays = st.builds(
        lambda item, least, more: {"type": "array", "items": item, "minItems": least, "maxItems": least + more},
        inner,
        st.integers(0, 2),
        st.integers(0, 2),
    )
    either = st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=2))
    return st.one_of(objects, arrays, either)


schemas = st.recursive(leaves, containers, max_leaves=4)


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """A validator written without a look at the builder."""
    if "const" in schema:
        return bool(value == schema["const"])
    if "enum" in schema:
        return value in schema["enum"]
    if "anyOf" in schema:
        return any(fits(value, option) for option in schema["anyOf"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return any(_fits_kind(value, kind, schema) for kind in kinds)


def _fits_kind(value: Any, kind: str, schema: dict[str, Any]) -> bool:
    if kind == "object":
        known = isinstance(value, dict) and set(schema.get("required", [])) <= set(value) <= set(schema["properties"])
        return known and all(fits(item, schema["properties"][name]) for name, item in value.items())
    if kind == "array":
        sized = isinstance(value, list) and schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 99)
        return sized and all(fits(item, schema["items"]) for item in value)
    if kind == "string":
        return isinstance(value, str) and schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 99)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "null":
        return value is None
    number = isinstance(value, int) or (kind == "number" and isinstance(value, float))
    return number and not isinstance(value, bool)


def wander(constraint: Constraint, rng: np.random.Generator, most: int = 2000) -> str:
    """A random walk through what a constraint allows, to its end."""
    tokens: list[int] = []
    while not constraint.finished():
        mask = constraint.allowed()
        assert mask is not None and mask.any(), "a dead end"
        token = int(rng.choice(np.flatnonzero(mask)))
        constraint = constraint.advance(token)
        tokens.append(token)
        assert len(tokens) < most, "no end"
    return Tokenizer.load().decode(tokens)


@settings(max_examples=60, deadline=None)
@given(schema=schemas, seed=st.integers(0, 3))
def test_whatever_is_let_through_fits_the_schema(schema: dict[str, Any], seed: int) -> None:
    text = wander(FORMS.json(schema), np.random.default_rng(seed))
    assert fits(json.loads(text), schema), text


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "banana"},
        {"$ref": "#/x"},
        {"type": "string", "pattern": "a+"},
        {"enum": []},
        {"type": "object", "properties": {}, "required": ["a"]},
        {"type": "array", "items": 3},
    ],
)
def test_schemas_that_cannot_be_honoured_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        node_of(schema)


@pytest.mark.parametrize("seed", range(5))
def test_a_call_names_a_tool_and_fits_its_parameters(seed: int) -> None:
    tools = [
        Tool(name="f", parameters={"properties": {"n": {"type": "integer"}}, "required": ["n"]}),
        Tool(name="g", parameters={}),
    ]
    text = wander(FORMS.call(tools), np.random.default_rng(seed))
    call = json.loads(text.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"))
    assert call["name"] in ("f", "g")
    assert isinstance(call["arguments"].get("n"), int) or call == {"name": "g", "arguments": {}}


def test_marks_are_written_as_one_token_each() -> None:
    tokenizer = Tokenizer.load()
    mask = FORMS.call([Tool(name="f", parameters={})]).allowed()
    assert mask is not None and list(np.flatnonzero(mask)) == [tokenizer.id_of("<tool_call>")]


def test_reasoning_is_closed_when_its_room_is_used_up() -> None:
    tokenizer = Tokenizer.load()
    constraint = FORMS.thinking(2, None)
    word = tokenizer.encode("a")[0]
    for _ in range(2):
        constraint = constraint.advance(word)
    mask = constraint.allowed()
    assert mask is not None and list(np.flatnonzero(mask)) == [tokenizer.id_of("</think>")]
    assert constraint.advance(tokenizer.id_of("</think>")).allowed() is None


def test_repeats_and_choices_of_the_automaton() -> None:
    node = Chain((Either((Literal(b"ab"), Literal(b"a"))), Chars(frozenset(b"b"), 1, 2)))
    automaton = Automaton(node)
    ends = {text: automaton.walk(automaton.start, text) for text in (b"ab", b"abb", b"abbb", b"a", b"abbbb")}
    assert [text for text, states in ends.items() if automaton.accepts(states)] == [b"ab", b"abb", b"abbb"]
    assert automaton.stuck(automaton.walk(automaton.start, b"abbb"))
