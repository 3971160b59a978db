"""A profile from its TOML text; every mistake is named with its line and with what may stand there."""

from __future__ import annotations

import datetime
import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from harness.checks.verdict import Status
from harness.gate.keys import METRIC_NAMES, PROFILE, SWEEP_FIELDS, Key
from harness.gate.lines import Path, line_of
from harness.gate.profile import CheckEntry, Limit, Objective, Profile, Slo, Waiver
from harness.metrics import parse_goodput

_KINDS: Mapping[str, str] = {
    "text": "a text in quotes",
    "whole": "a whole number",
    "number": "a number",
    "flag": "true or false",
    "date": "a date such as 2027-03-31",
    "texts": "a list of texts",
    "wholes": "a list of whole numbers",
    "numbers": "a list of numbers",
    "tables": "tables",
}
# Keys of the top table that are not taken as they stand.
_MADE = ("name", "goodput", "require")
_OBJECTIVE_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)_")


class ProfileError(ValueError):
    """A profile that cannot be used; the message names the file, the line, the key and what is allowed."""


def read_profile(text: str, source: str) -> Profile:
    """The profile in `text`; `source` is what messages call it. Raises ProfileError."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{source}: no TOML: {error}") from None
    return _Reader(text, source).profile(content)


class _Reader:
    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source

    def profile(self, content: Mapping[str, Any]) -> Profile:
        self._check_table(content, PROFILE, ())
        checks = tuple(self._entry(each, index) for index, each in enumerate(content.get("check", ())))
        objectives = tuple(self._objective(each, index) for index, each in enumerate(content.get("objective", ())))
        self._refuse_twice("check", "name", [each.name for each in checks])
        self._refuse_twice("objective", "name", [each.name for each in objectives])
        if not checks and not objectives:
            raise self._error((), None, "it asks for nothing; add a [[check]] or an [[objective]]")
        plain = [name for name, key in PROFILE.items() if key.kind != "tables" and name not in _MADE]
        return Profile(
            name=content.get("name", self._source.removesuffix(".toml")),
            goodput=self._goodput(content.get("goodput")),
            require=tuple(content.get("require", ())),
            checks=checks,
            objectives=objectives,
            waivers=tuple(self._waiver(each) for each in content.get("waiver", ())),
            **{name: content[name] for name in plain if name in content},
        )

    def _entry(self, table: Mapping[str, Any], index: int) -> CheckEntry:
        for number, limit in enumerate(table.get("limit", ())):
            if "min" not in limit and "max" not in limit:
                raise self._error((("check", index), ("limit", number)), "detail", "needs a min or a max")
        plain = {name: table[name] for name in table if name != "limit"}
        return CheckEntry(**plain, limits=tuple(Limit(**each) for each in table.get("limit", ())))

    def _objective(self, table: Mapping[str, Any], index: int) -> Objective:
        path: Path = (("objective", index),)
        if not _OBJECTIVE_NAME.fullmatch(table["name"]):
            raise self._error(path, "name", f"{table['name']!r}: small letters, digits and single hyphens only")
        slos = tuple(self._slo(each, (*path, ("slo", number))) for number, each in enumerate(table["slo"]))
        sweep = {field: self._setting(key, table[key]) for key, field in SWEEP_FIELDS.items() if key in table}
        return Objective(
            name=table["name"], sweep=sweep, max_failed_share=table.get("max_failed_share", 0.0), slos=slos
        )

    def _setting(self, key: str, value: Any) -> object:
        if key == "request_rate":
            return tuple(f"{float(each):g}" for each in value)
        return tuple(value) if isinstance(value, list) else value

    def _slo(self, table: Mapping[str, Any], path: Path) -> Slo:
        name = table["metric"]
        usual = _PERCENTILE.sub("p99_", name)
        if name not in METRIC_NAMES and usual not in METRIC_NAMES:
            near = difflib.get_close_matches(usual, METRIC_NAMES, 3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise self._error(path, "metric", f"no metric of summary.json is called {name!r}{hint}")
        slo = Slo(**table)
        if all(value is None for value in (slo.min, slo.max, slo.min_of_baseline, slo.max_of_baseline)):
            raise self._error(path, "metric", "needs one of min, max, min_of_baseline, max_of_baseline")
        return slo

    def _waiver(self, table: Mapping[str, Any]) -> Waiver:
        plain = {name: table[name] for name in table if name != "status"}
        if "status" in table:
            plain["statuses"] = tuple(Status(each) for each in table["status"])
        return Waiver(**plain)

    def _goodput(self, text: str | None) -> Mapping[str, float]:
        try:
            return parse_goodput([text]) if text is not None else {}
        except ValueError as error:
            raise self._error((), "goodput", str(error)) from None

    def _refuse_twice(self, table: str, key: str, names: Sequence[str]) -> None:
        for index, name in enumerate(names):
            if name in names[:index]:
                raise self._error(((table, index),), key, f"{name!r} stands there twice")

    # -- what may stand where

    def _check_table(self, table: Mapping[str, Any], keys: Mapping[str, Key], path: Path) -> None:
        for name in table:
            if name not in keys:
                near = difflib.get_close_matches(name, keys, 1)
                hint = f"did you mean {near[0]}? " if near else ""
                raise self._error(path, name, f"is not known; {hint}there are {', '.join(keys)}")
        for name, key in keys.items():
            if name in table:
                self._check_value(table[name], key, path, name)
            elif key.needed:
                raise self._error(path, None, f"{name} is missing: {_KINDS[key.kind]}")

    def _check_value(self, value: Any, key: Key, path: Path, name: str) -> None:
        if not _is_of(value, key.kind):
            raise self._error(path, name, f"has to be {_allowed(key)}, and is {_shown(value)}")
        if key.tables is not None:
            for index, each in enumerate(value):
                self._check_table(each, key.tables, (*path, (name, index)))
            return
        for each in value if isinstance(value, list) else [value]:
            fits = key.choices is None or each in key.choices
            if not fits or not _in_range(each, key):
                raise self._error(path, name, f"has to be {_allowed(key)}, and is {_shown(each)}")

    def _error(self, path: Path, key: str | None, words: str) -> ProfileError:
        line = line_of(self._text, path, key)
        at = self._source if line is None else f"{self._source}, line {line}"
        where = "".join(f"[[{'.'.join(name for name, _ in path)}]] " if path else "")
        return ProfileError(f"{at}: {where}{'' if key is None else key + ' '}{words}")


def _is_of(value: Any, kind: str) -> bool:
    if kind == "tables":
        return isinstance(value, list) and all(isinstance(each, dict) for each in value)
    if kind in ("texts", "wholes", "numbers"):
        return isinstance(value, list) and bool(value) and all(_is_of(each, kind[:-1]) for each in value)
    if kind == "date":
        return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    if kind == "flag":
        return isinstance(value, bool)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"text": isinstance(value, str), "whole": number and isinstance(value, int), "number": number}[kind]


def _in_range(value: Any, key: Key) -> bool:
    return (key.least is None or value >= key.least) and (key.above is None or value > key.above)


def _allowed(key: Key) -> str:
    words = f"one of {', '.join(key.choices)}" if key.choices is not None else _KINDS[key.kind]
    if key.choices is not None and key.kind == "texts":
        words = f"a list out of {', '.join(key.choices)}"
    if key.least is not None:
        words += f" of at least {key.least:g}"
    return words if key.above is None else f"{words} above {key.above:g}"


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
