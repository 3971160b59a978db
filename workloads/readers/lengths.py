"""Traces that give lengths and prefix hashes but no text: Mooncake, Bailian, Azure, BurstGPT, kv-cache-tester."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from workloads.readers.rows import Row, block_ids, count, number, objects, optional_count, text_of
from workloads.trace import TracedRequest

MS_PER_S = 1000
_LOCAL_IDS = 1 << 32


class Mooncake:
    """`timestamp` ms, `input_length`, `output_length`, `hash_ids` of 512 tokens; each row is a session of its own."""

    block_tokens = 512

    def __init__(self) -> None:
        self._rows = 0

    def __call__(self, row: Row) -> Iterator[TracedRequest]:
        length, ids = count(row, "input_length"), block_ids(row)
        _check_blocks(length, ids, self.block_tokens)
        self._rows += 1
        yield TracedRequest(
            session=f"{self._rows - 1}",
            turn=0,
            at_s=number(row, "timestamp") / MS_PER_S,
            input_tokens=length,
            output_tokens=count(row, "output_length"),
            blocks=ids,
        )


class Bailian:
    """`chat_id`, `parent_chat_id`, `timestamp` s, lengths, `turn` from 1, `hash_ids` of 16 tokens."""

    block_tokens = 16

    def __init__(self) -> None:
        self._session_of: dict[int, tuple[str, int]] = {}

    def __call__(self, row: Row) -> Iterator[TracedRequest]:
        chat, parent = count(row, "chat_id"), int(number(row, "parent_chat_id"))
        length, ids = count(row, "input_length"), block_ids(row)
        _check_blocks(length, ids, self.block_tokens)
        session, before = self._session_of.get(parent, (f"{chat}", -1))
        self._session_of[chat] = session, before + 1
        yield TracedRequest(
            session=session,
            turn=before + 1,
            at_s=number(row, "timestamp"),
            input_tokens=length,
            output_tokens=count(row, "output_length"),
            blocks=ids,
        )


class Azure:
    """CSV of `TIMESTAMP` (date and time), `ContextTokens`, `GeneratedTokens`."""

    block_tokens = None

    def __init__(self) -> None:
        self._rows = 0

    def __call__(self, row: Row) -> Iterator[TracedRequest]:
        stamp = text_of(row, "TIMESTAMP").strip()
        self._rows += 1
        yield TracedRequest(
            session=f"{self._rows - 1}",
            turn=0,
            at_s=_seconds(stamp),
            input_tokens=count(row, "ContextTokens"),
            output_tokens=count(row, "GeneratedTokens"),
        )


class BurstGpt:
    """CSV of `Timestamp` s, `Request tokens`, `Response tokens`; `Session ID` in newer releases."""

    block_tokens = None

    def __init__(self) -> None:
        self._rows = 0
        self._turns: dict[str, int] = {}

    def __call__(self, row: Row) -> Iterator[TracedRequest]:
        self._rows += 1
        given = row.get("Session ID")
        session = f"session {given}" if given not in (None, "", "-1") else f"{self._rows - 1}"
        turn = self._turns.get(session, 0)
        self._turns[session] = turn + 1
        yield TracedRequest(
            session=session,
            turn=turn,
            at_s=number(row, "Timestamp"),
            input_tokens=count(row, "Request tokens"),
            output_tokens=count(row, "Response tokens"),
        )


class KvCacheTester:
    """One agent session a file or row: `requests` of `t` s, `in`, `out`, `hash_ids`, `input_types`, `think_time`.

    Block ids mean something within their session only and are told apart here. A request that holds `requests` of its
    own is a sub-agent's session.
    """

    block_tokens = 64

    def __init__(self) -> None:
        self._sessions = 0

    def __call__(self, row: Row) -> Iterator[TracedRequest]:
        size = optional_count(row, "block_size")
        if size is not None and size != self.block_tokens:
            raise ValueError(f"block_size {size} is not {self.block_tokens}")
        local = row.get("hash_id_scope", "local") == "local"
        name = str(row.get("id", f"session {self._sessions}"))
        yield from self._session(row, name, None, self._sessions * _LOCAL_IDS if local else 0)
        self._sessions += 1

    def _session(self, row: Row, name: str, parent: str | None, first_id: int) -> Iterator[TracedRequest]:
        before: tuple[int, ...] = ()
        turn = 0
        for request in objects(row, "requests"):
            if isinstance(request.get("requests"), list):
                yield from self._session(request, f"{name}/{turn}", name, first_id)
                continue
            length = count(request, "in")
            ids = tuple(first_id + block for block in block_ids(request))
            shared = _shared_blocks(before, ids)
            yield TracedRequest(
                session=name,
                turn=turn,
                at_s=number(request, "t"),
                input_tokens=length,
                output_tokens=count(request, "out"),
                think_s=number(request, "think_time") if turn and request.get("think_time") is not None else None,
                kind="tool" if "tool_result" in _texts(request.get("input_types")) else "user",
                blocks=ids,
                prefix_tokens=min(length, shared * self.block_tokens) if turn else None,
                parent=parent,
            )
            before = ids
            turn += 1


def _check_blocks(length: int, ids: tuple[int, ...], block_tokens: int) -> None:
    if len(ids) > -(-length // block_tokens):
        raise ValueError(f"{len(ids)} hash_ids of {block_tokens} tokens are more than {length} tokens need")


def _shared_blocks(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    shared = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        shared += 1
    return shared


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _seconds(stamp: str) -> float:
    """A date and time, with up to seven digits of a second, as seconds; ValueError otherwise."""
    whole, _, digits = stamp.partition(".")
    digits = digits.removesuffix("Z").partition("+")[0]
    try:
        moment = datetime.fromisoformat(whole.removesuffix("Z"))
        return moment.timestamp() + (float(f"0.{digits}") if digits else 0.0)
    except ValueError:
        raise ValueError(f"TIMESTAMP is not a date and time: {stamp!r:.40}") from None
