"""Records to JSON and back: the one place that knows how a record looks on disk.

A record is a JSON object with one key per field, enumerations by value, tuples as arrays. Reading takes any schema
version: unknown keys are counted and left out, missing ones take the field's default, or None where None is allowed.
"""

from __future__ import annotations

import math
import types
import typing
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias, TypeVar, Union

import orjson

from workloads.plan import Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
Unread: TypeAlias = Counter[str]
Reader: TypeAlias = Callable[[object, Unread], object]


class NotReadable(ValueError):
    """A JSON value does not hold the record it should; the message names the field."""


def encode_line(kind: str, record: DataclassInstance, **more: Json) -> bytes:
    """One line of history.jsonl or plan.jsonl, newline included; `more` are keys beside the record's own, or instead.

    A lone surrogate (half a character, which UTF-8 cannot carry) becomes U+FFFD and the line is marked "lossy".
    """
    line = {"type": kind, **_own_fields(record), **more}
    try:
        return orjson.dumps(line, default=_plain, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        mended = {**typing.cast(dict[str, object], _without_surrogates(line)), "lossy": True}
        return orjson.dumps(mended, default=_plain, option=orjson.OPT_APPEND_NEWLINE)


def encode_document(value: object) -> bytes:
    """An indented JSON document for people to read, newline included."""
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    try:
        return orjson.dumps(value, default=_plain, option=option)
    except orjson.JSONEncodeError:
        return orjson.dumps(_without_surrogates(value), default=_plain, option=option)


def decode(kind: type[T], value: object, unread: Unread) -> T:
    """The record of class `kind` in a parsed JSON object; keys it does not know are counted in `unread`.

    Raises NotReadable when a field that has no default and may not be None is missing or of another type.
    """
    if type(value) is not dict:
        raise NotReadable(f"{kind.__name__}: an object was expected, got {type(value).__name__}")
    plan = _plan(typing.cast(Hashable, kind), tuple(value), tuple(map(type, value.values())))
    known: dict[str, object] = dict(zip(plan.names, value.values(), strict=True))
    name = ""
    try:
        for name, read in plan.readers:
            known[name] = read(known[name], unread)
    except (TypeError, ValueError) as error:
        raise NotReadable(f"{kind.__name__}.{name}: {error}") from error
    for name in plan.unknown:
        del known[name]
        unread[f"{kind.__name__}.{name}"] += 1
    known.update(plan.missing)
    try:
        return kind(**known)
    except (TypeError, ValueError) as error:
        raise NotReadable(f"{kind.__name__}: {error}") from error


def _own_fields(record: DataclassInstance) -> dict[str, object]:
    names, values_of = _fields_of(type(record))
    return dict(zip(names, values_of(record), strict=True))


@cache
def _fields_of(
    kind: type[DataclassInstance],
) -> tuple[tuple[str, ...], Callable[[DataclassInstance], Iterable[object]]]:
    """The names of a record's fields and what gives their values in one go."""
    names = tuple(each.name for each in fields(kind))
    return names, attrgetter(*names) if len(names) > 1 else lambda record: [getattr(record, each) for each in names]


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _without_surrogates(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _without_surrogates(_own_fields(value))
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How to read objects with the same keys and the same types of values; records of a run have few such shapes.

    names: its keys; those of fields are the very strings that the class knows, which a call finds at once among its
    parameters. readers: of the fields whose value is not the record's as it stands. missing: fields without default,
    as None.
    """

    names: tuple[str, ...]
    readers: tuple[tuple[str, Reader], ...]
    missing: Mapping[str, None]
    unknown: tuple[str, ...]


@lru_cache(maxsize=1024)
def _plan(kind: type, names: tuple[str, ...], value_types: tuple[type, ...]) -> _Plan:
    hints = _hints(kind)
    known = [(name, value_type) for name, value_type in zip(names, value_types, strict=True) if name in hints]
    own = {name: name for name in hints}
    return _Plan(
        names=tuple(own.get(name, name) for name in names),
        readers=tuple((name, _reader(hints[name])) for name, found in known if not _stays(hints[name], found)),
        missing={name: None for name in _optional(kind) if name not in names},
        unknown=tuple(name for name in names if name not in hints),
    )


@cache
def _hints(kind: type) -> dict[str, object]:
    hints = typing.get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


@cache
def _optional(kind: type) -> tuple[str, ...]:
    """Fields that are None where an object lacks them."""
    return tuple(
        each.name
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING and _allows_none(_hints(kind)[each.name])
    )


def _stays(hint: object, value_type: type) -> bool:
    """Whether every value of a JSON type is a field's value as it stands, so that its reader need not look at it."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in _SCALARS:
        return value_type is hint
    if origin in (Union, types.UnionType):
        only = _only_or_none(inner)
        return only is None or value_type is type(None) or _stays(only, value_type)
    return origin is not None and issubclass(origin, Mapping) and value_type is dict and _reader(inner[1]) is _as_it_is


def _allows_none(hint: object) -> bool:
    return typing.get_origin(hint) in (Union, types.UnionType) and type(None) in typing.get_args(hint)


def _reader(hint: object) -> Reader:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if origin in (Union, types.UnionType):
        return _union_reader(inner)
    if origin is tuple:
        return _tuple_reader(_reader(inner[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_reader(_reader(inner[1]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_reader(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda value, unread: decode(hint, value, unread)
    raise TypeError(f"no reader for a field of type {hint}")


def _union_reader(inner: tuple[object, ...]) -> Reader:
    only = _only_or_none(inner)
    if only is None:
        return _as_it_is
    read = _reader(only)
    return lambda value, unread: None if value is None else read(value, unread)


def _only_or_none(inner: tuple[object, ...]) -> object | None:
    """The one type of a union beside None; None for any other union, whose values are taken as they are."""
    others = [each for each in inner if each is not type(None)]
    return others[0] if len(others) == 1 and len(others) < len(inner) else None


def _as_it_is(value: object, unread: Unread) -> object:
    return value


def _enum_reader(kind: type[Enum]) -> Reader:
    members = {member.value: member for member in kind}

    def read_member(value: object, unread: Unread) -> object:
        member = members.get(value)
        return kind(value) if member is None else member

    return read_member


def _tuple_reader(read: Reader) -> Reader:
    def read_tuple(value: object, unread: Unread) -> object:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise TypeError(f"an array was expected, got {type(value).__name__}")
        return tuple(read(item, unread) for item in value)

    return read_tuple


def _mapping_reader(read: Reader) -> Reader:
    def read_mapping(value: object, unread: Unread) -> object:
        if type(value) is not dict:
            raise TypeError(f"an object was expected, got {type(value).__name__}")
        return value if read is _as_it_is else {key: read(item, unread) for key, item in value.items()}

    return read_mapping


def _read_int(value: object, unread: Unread) -> object:
    if type(value) is not int:
        raise TypeError(f"a whole number was expected, got {value!r}")
    return value


def _read_float(value: object, unread: Unread) -> object:
    if value is None:
        return math.nan  # what the encoder writes for NaN and infinity
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"a number was expected, got {value!r}")
    return float(value)


def _read_exact(kind: type) -> Reader:
    def read(value: object, unread: Unread) -> object:
        if type(value) is not kind:
            raise TypeError(f"{kind.__name__} was expected, got {value!r}")
        return value

    return read


_SCALARS: dict[object, Reader] = {
    int: _read_int,
    float: _read_float,
    str: _read_exact(str),
    bool: _read_exact(bool),
}
