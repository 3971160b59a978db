"""JSON schemas as regular expressions: the values written in one canonical way, strings and lists of bounded length."""

from __future__ import annotations

import json
from collections.abc import Mapping

from harness.reference.constraint.automaton import Chain, Chars, Either, Literal, Node, optional

Json = Mapping[str, object]

LONGEST_STRING = 16
LONGEST_LIST = 3
DIGITS = frozenset(b"0123456789")
TEXT = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,_-/")
UNSUPPORTED = (
    "$ref allOf not if pattern multipleOf minimum maximum exclusiveMinimum exclusiveMaximum uniqueItems contains "
    "prefixItems patternProperties minProperties maxProperties dependentRequired"
)


class SchemaError(ValueError):
    """A schema that is wrong, or that asks for what the embedded engine cannot hold an answer to."""


def node_of(schema: Json) -> Node:
    """The canonical texts that satisfy a schema.

    Raises:
        SchemaError: an unknown type or an unsupported keyword.
    """
    refused = [key for key in UNSUPPORTED.split() if key in schema]
    if refused:
        raise SchemaError(f"Unsupported keyword: {refused[0]}")
    if "const" in schema:
        return _value(schema["const"])
    for key in ("enum", "anyOf", "oneOf"):
        if key in schema:
            return _options(schema[key], plain=key == "enum")
    kind = schema.get("type", "object" if "properties" in schema else ["string", "integer", "boolean", "null"])
    if isinstance(kind, list):
        return Either(tuple(node_of({**schema, "type": one}) for one in kind))
    if not isinstance(kind, str) or kind not in _BUILDERS:
        raise SchemaError(f"Invalid type: {kind}")
    return _BUILDERS[kind](schema)


def any_object() -> Node:
    """A JSON object with up to three text members, for answers that must be JSON and nothing more."""
    text = _string({})
    member = Chain((text, Literal(b": "), text))
    more = optional(Chain((Literal(b", "), member)))
    return Chain((Literal(b"{"), optional(Chain((member, more, more))), Literal(b"}")))


def _options(values: object, *, plain: bool) -> Node:
    if not isinstance(values, list) or not values:
        raise SchemaError("enum, anyOf and oneOf need a list that is not empty")
    return Either(tuple(_value(value) if plain else node_of(_object_of(value)) for value in values))


def _value(value: object) -> Node:
    return Literal(json.dumps(value).encode())


def _string(schema: Json) -> Node:
    least, most = _bounds(schema, "minLength", "maxLength", LONGEST_STRING)
    return Chain((Literal(b'"'), Chars(TEXT, least, most), Literal(b'"')))


def _integer(_schema: Json) -> Node:
    positive = Chain((Chars(DIGITS - {ord("0")}, 1, 1), Chars(DIGITS, 0, 4)))
    return Either((Literal(b"0"), Chain((optional(Literal(b"-")), positive))))


def _number(schema: Json) -> Node:
    return Chain((_integer(schema), optional(Chain((Literal(b"."), Chars(DIGITS, 1, 3))))))


def _boolean(_schema: Json) -> Node:
    return Either((Literal(b"true"), Literal(b"false")))


def _null(_schema: Json) -> Node:
    return Literal(b"null")


def _array(schema: Json) -> Node:
    least, most = _bounds(schema, "minItems", "maxItems", LONGEST_LIST)
    item = node_of(_object_of(schema.get("items", {})))
    rest: Node = Literal(b"")
    for count in range(most, 1, -1):
        rest = Chain((Literal(b", "), item, rest))
        if count > least:
            rest = optional(rest)
    filled = Chain((item, rest)) if most else Literal(b"")
    return Chain((Literal(b"["), filled if least else optional(filled), Literal(b"]")))


def _object(schema: Json) -> Node:
    """Required members first, in order, then the optional ones; without required ones the first stands in."""
    properties = _object_of(schema.get("properties", {}))
    wanted = schema.get("required", [])
    required = [name for name in wanted if isinstance(name, str)] if isinstance(wanted, list) else []
    unknown = [name for name in required if name not in properties]
    if unknown:
        raise SchemaError(f"Required property {unknown[0]} is not defined")
    always = required or list(properties)[:1]
    parts: list[Node] = [Literal(b"{")]
    for index, name in enumerate([*always, *(name for name in properties if name not in always)]):
        member = Chain((Literal(json.dumps(name).encode() + b": "), node_of(_object_of(properties[name]))))
        separated = member if index == 0 else Chain((Literal(b", "), member))
        parts.append(separated if name in always else optional(separated))
    return Chain((*parts, Literal(b"}")))


def _bounds(schema: Json, least_key: str, most_key: str, longest: int) -> tuple[int, int]:
    least, most = schema.get(least_key, 0), schema.get(most_key)
    if not isinstance(least, int) or not (most is None or isinstance(most, int)):
        raise SchemaError(f"{least_key} and {most_key} must be integers")
    return least, max(least, longest if most is None else min(most, longest))


def _object_of(value: object) -> Json:
    if not isinstance(value, dict):
        raise SchemaError("a schema must be an object")
    return value


_BUILDERS = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "array": _array,
    "object": _object,
}
