"""Reading typed fields out of a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import orjson

from harness.reference.server.errors import RequestError

Json = Mapping[str, object]
T = TypeVar("T", bool, int, float, str)


def parse_object(body: bytes) -> Json:
    """The JSON object in a request body.

    Raises:
        RequestError: not JSON, or not an object.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"JSON decode error: {error}", kind="Bad Request", param="body") from error
    if not isinstance(value, dict):
        raise RequestError("Input should be a valid dictionary", kind="Bad Request", param="body")
    return value


def boolean(body: Json, name: str, default: bool) -> bool:
    """A true-or-false field; null and absent give the default."""
    return _typed(body, name, bool, default)


def integer(body: Json, name: str, default: int, *, least: int | None = None) -> int:
    """A whole number not below ``least``; null and absent give the default."""
    value = _typed(body, name, int, default)
    if least is not None and value < least:
        raise RequestError(f"{name} must be at least {least}, got {value}.", param=name, value=value)
    return value


def number(body: Json, name: str, default: float) -> float:
    """A number; null and absent give the default."""
    value = body.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return _typed(body, name, float, default)


def string(body: Json, name: str, default: str) -> str:
    """A text; null and absent give the default."""
    return _typed(body, name, str, default)


def strings(body: Json, name: str) -> tuple[str, ...]:
    """A list of texts, or one text alone; null and absent give none."""
    value = body.get(name)
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise wrong_type(name, "string or a list of strings")
    return tuple(item for item in items if item)


def integers(body: Json, name: str) -> tuple[int, ...]:
    """A list of whole numbers; null and absent give none."""
    value = body.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
        raise wrong_type(name, "list of integers")
    return tuple(value)


def mapping(body: Json, name: str) -> Json:
    """An object; null and absent give an empty one."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong_type(name, "dictionary")
    return value


def objects(body: Json, name: str) -> list[Json]:
    """A list of objects; null and absent give none."""
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise wrong_type(name, "list")
    return value


def wrong_type(name: str, wanted: str) -> RequestError:
    """The refusal of a field that holds something else."""
    return RequestError(
        f"1 validation error:\n  {{'loc': 'body.{name}', 'msg': 'Input should be a valid {wanted}'}}",
        kind="Bad Request",
        param=f"body.{name}",
    )


def _typed(body: Json, name: str, kind: type[T], default: T) -> T:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, kind) and not (kind is not bool and isinstance(value, bool)):
        return value
    names = {bool: "boolean", int: "integer", float: "number", str: "string"}
    raise wrong_type(name, names[kind])
