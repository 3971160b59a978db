"""Readers of the public formats of traces and datasets, from text to `Trace`; a file never gets here, its text does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workloads.plan import Json
from workloads.readers.lengths import Azure, Bailian, BurstGpt, KvCacheTester, Mooncake
from workloads.readers.rows import Row, as_object, csv_rows, json_rows
from workloads.readers.texts import AgenticConversations, AiperfMultiTurn, OpenAiChat, ShareGpt, VllmCustom
from workloads.trace import BadRow, Trace, TracedRequest, timed_from_zero

ReadRow = Callable[[Row], Iterator[TracedRequest]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format: how a file's rows become requests. fits: whether a row looks like one of it."""

    make: Callable[[], ReadRow]
    block_tokens: int | None
    fits: Callable[[Row], bool]
    is_csv: bool = False


def _has(*names: str) -> Callable[[Row], bool]:
    return lambda row: all(name in row for name in names)


def _talks(field: str) -> Callable[[Row], bool]:
    def fits(row: Row) -> bool:
        said = row.get("conversations")
        return isinstance(said, list) and bool(said) and isinstance(said[0], Mapping) and field in said[0]

    return fits


READERS: Mapping[str, Format] = {
    "kv-cache-tester": Format(make=KvCacheTester, block_tokens=64, fits=_has("requests")),
    "bailian": Format(make=Bailian, block_tokens=16, fits=_has("chat_id", "parent_chat_id", "hash_ids")),
    "mooncake": Format(make=Mooncake, block_tokens=512, fits=_has("timestamp", "input_length", "hash_ids")),
    "azure": Format(make=Azure, block_tokens=None, fits=_has("TIMESTAMP", "ContextTokens"), is_csv=True),
    "burstgpt": Format(make=BurstGpt, block_tokens=None, fits=_has("Timestamp", "Request tokens"), is_csv=True),
    "aiperf": Format(make=AiperfMultiTurn, block_tokens=None, fits=_has("turns")),
    "sharegpt": Format(make=ShareGpt, block_tokens=None, fits=_talks("from")),
    "agentic": Format(make=AgenticConversations, block_tokens=None, fits=_talks("role")),
    "openai": Format(make=OpenAiChat, block_tokens=None, fits=lambda row: "messages" in row or "body" in row),
    "custom": Format(make=VllmCustom, block_tokens=None, fits=_has("prompt")),
}


def guess_format(text: str) -> str | None:
    """The format that the first row looks like; None if it looks like none."""
    first = next(_rows(text, is_csv=text.lstrip()[:1] not in ("{", "[")), None)
    row = None if first is None else first[1]
    if not isinstance(row, Mapping):
        return None
    return next((name for name, each in READERS.items() if each.fits(row)), None)


def read_trace(files: Sequence[tuple[str, str]], format_name: str, *, skip_bad_rows: bool = False) -> Trace:
    """The trace of (name, text) files of one format.

    Raises ValueError with file and line at the first bad row, unless bad rows are to be skipped; then they are listed.
    """
    known = READERS[format_name]
    read = known.make()
    requests: list[TracedRequest] = []
    bad: list[BadRow] = []
    for name, text in files:
        for line, value in _rows(text, is_csv=known.is_csv):
            try:
                requests += list(read(as_object(value)))
            except ValueError as error:
                bad.append(BadRow(file=name, line=line, why=str(error)))
                if not skip_bad_rows:
                    raise ValueError(str(bad[0])) from None
    if not requests:
        raise ValueError(f"{', '.join(name for name, _ in files)}: no {format_name} request in it")
    source = files[0][0] if len(files) == 1 else f"{files[0][0]} and {len(files) - 1} more"
    return Trace(
        format=format_name,
        source=source,
        requests=timed_from_zero(requests) if format_name != "kv-cache-tester" else tuple(requests),
        block_tokens=known.block_tokens,
        bad_rows=tuple(bad),
    )


def _rows(text: str, *, is_csv: bool) -> Iterator[tuple[int, Json | ValueError]]:
    return csv_rows(text) if is_csv else json_rows(text)
