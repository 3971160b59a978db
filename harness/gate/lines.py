"""Where in a TOML text a key stands, so that a mistake can be shown with its line."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\s*\[\[?\s*([A-Za-z0-9_.\-]+)\s*\]?\]")

Path = tuple[tuple[str, int], ...]
"""From the top: the name of each table that is gone into, and its number among those of that name."""


def line_of(text: str, path: Path, key: str | None = None) -> int | None:
    """Line (from 1) of a key in a table, or of the table's header; None where it cannot be found.

    Tables given in one line, as {a = 1}, are found by the line of the key that holds them.
    """
    lines = text.split("\n")
    start, end = _table(lines, path)
    if start is None:
        return line_of(text, path[:-1], path[-1][0]) if path else None
    if key is None:
        return start
    pattern = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
    return next((number for number in range(start, end + 1) if pattern.match(lines[number - 1])), start or None)


def _table(lines: list[str], path: Path) -> tuple[int | None, int]:
    """First and last line of a table's own keys; the top table begins at line 1."""
    headers = [(number, found.group(1)) for number, line in enumerate(lines, 1) if (found := _HEADER.match(line))]
    if not path:
        return 1, headers[0][0] - 1 if headers else len(lines)
    counts: dict[str, int] = {}
    for index, (number, name) in enumerate(headers):
        for known in [each for each in counts if each.startswith(name + ".")]:
            del counts[known]
        counts[name] = counts.get(name, -1) + 1
        parts = name.split(".")
        here = tuple((part, counts.get(".".join(parts[: depth + 1]), 0)) for depth, part in enumerate(parts))
        if here == path:
            return number, headers[index + 1][0] - 1 if index + 1 < len(headers) else len(lines)
    return None, len(lines)
