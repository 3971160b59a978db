"""A check's rounds read back from a run, as its judge wants them; the answers' raw bytes are decoded anew."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.checks.capabilities import read_capabilities
from harness.checks.history import Answer, Capabilities, CheckHistory, Prices, StepRecord
from harness.drive.framing import framing_of, message_fields_of
from harness.endpoint.counters import COUNTER_NAMES, accepted_by_position, by_rank, total
from harness.endpoint.raw import RawAnswer
from harness.endpoint.usage import usages_of
from harness.endpoint.wire import decode
from harness.records import Complete, CounterSample, Record
from harness.stats.drafts import accepted_at
from harness.store import CellHistory, RunFolder, read_cell, read_raw
from workloads.capabilities import NAME as CAPABILITIES
from workloads.plan import Json

_LIMIT_WORDS = {"duration": "time", "tokens": "tokens", "requests": "requests"}


def load_history(run: RunFolder, check: str) -> CheckHistory:
    """All rounds of a check, finished or not; without any, a history without answers.

    Raises StoreError if the run named as its baseline cannot be read.
    """
    engine, expected = run.info.target.engine, run.info.options.get("expect_acceptance")
    cells = [read_cell(run, cell) for cell in rounds_of(run, check)]
    return CheckHistory(
        answers=tuple(_answer(run, cell.cell, record) for cell in cells for record in cell.records),
        steps=tuple(step for cell in cells for step in _steps(cell)),
        counters=tuple(_by_meaning(sample, engine) for cell in cells for sample in cell.counters),
        capabilities=load_capabilities(run),
        rounds=len(cells),
        required=frozenset(_names(run.info.options.get("require"))),
        cut_short=_cut_short(cells),
        other=tuple(
            _answer(run, cell, record)
            for cell in rounds_of(run, other_name(check))
            for record in read_cell(run, cell).records
        ),
        baseline=_baseline(run, check),
        expected_acceptance=expected if isinstance(expected, float | int) else None,
        prices=_prices(run.info.options),
    )


def _prices(options: Mapping[str, Json]) -> Prices:
    given = {name: options.get(f"price_{name}") for name in ("input", "cached_input", "output")}
    return Prices(**{name: float(each) for name, each in given.items() if isinstance(each, float | int)})


def other_name(check: str) -> str:
    """What the rounds of a check are called that another server was asked."""
    return f"{check}-other"


def _baseline(run: RunFolder, check: str) -> CheckHistory | None:
    """The same check in the run that was named as a baseline; None without one, or if that run did not ask it."""
    path = run.info.options.get("baseline")
    if not isinstance(path, str):
        return None
    with RunFolder.open(Path(path)) as earlier:
        return load_history(earlier, check) if rounds_of(earlier, check) else None


def load_capabilities(run: RunFolder) -> Capabilities:
    """What the last capability round of a run showed; nothing is known of a run without one."""
    engine, details = run.info.target.engine, run.info.target.details
    chunk = run.info.options.get("prefill_chunk")
    cells = [read_cell(run, cell) for cell in rounds_of(run, CAPABILITIES)[-1:]]
    return read_capabilities(
        [_answer(run, cell.cell, record) for cell in cells for record in cell.records],
        [step for cell in cells for step in _steps(cell)],
        [_by_meaning(sample, engine) for cell in cells for sample in cell.counters],
        engine=engine,
        details=details if chunk is None else {**details, "chunked_prefill_size": chunk},
        deterministic=True if run.info.options.get("deterministic") is True else None,
    )


def rounds_of(run: RunFolder, check: str) -> tuple[str, ...]:
    """The cells of a check's rounds, in order."""
    name = re.compile(re.escape(check) + r"-r(\d+)\Z")
    found = [(int(match.group(1)), cell) for cell in run.cells() if (match := name.match(cell))]
    return tuple(cell for _, cell in sorted(found))


def _answer(run: RunFolder, cell: str, record: Record) -> Answer:
    raw = read_raw(run, cell, record.invoke.request_id) if record.complete.raw_kept else None
    if raw is None:
        return Answer(record=record)
    reading = decode(_as_raw_answer(record.complete, raw), stream=record.invoke.parameters.get("stream") is True)
    return Answer(
        record=record,
        logprobs=reading.logprobs,
        token_ids=reading.token_ids,
        usages=usages_of(raw),
        framing=framing_of(raw),
        message_fields=message_fields_of(raw),
    )


def _as_raw_answer(complete: Complete, body: bytes) -> RawAnswer:
    """The bytes as if they had come in one piece: times are in the record already."""
    end_ns = complete.end_ns if complete.end_ns is not None else 0
    return RawAnswer(
        http_status=complete.http_status,
        headers={},
        sent_ns=complete.sent_ns,
        body=body,
        starts=(0,) if body else (),
        arrivals_ns=(end_ns,) if body else (),
        end_ns=end_ns,
    )


def _steps(cell: CellHistory) -> list[StepRecord]:
    return [StepRecord(invoke=invoke, complete=cell.step_completes.get(invoke.request_id)) for invoke in cell.steps]


def _by_meaning(sample: CounterSample, engine: str | None) -> CounterSample:
    """The counters that have a known meaning on this engine, under it; none where the engine is not known."""
    meanings: Mapping[str, object] = COUNTER_NAMES.get(engine, {}) if engine is not None else {}
    found = {meaning: total(sample, engine, meaning) for meaning in meanings} if engine is not None else {}
    found |= by_rank(sample, engine) if engine is not None else {}
    found |= {accepted_at(position): value for position, value in accepted_by_position(sample).items()}
    return CounterSample(at_ns=sample.at_ns, values={name: value for name, value in found.items() if value is not None})


def _cut_short(cells: Sequence[CellHistory]) -> str | None:
    for cell in cells:
        if cell.info is None:
            return f"{cell.cell} was interrupted"
        if cell.info.ended_by is not None:
            return f"{cell.cell} came to its limit of {_LIMIT_WORDS.get(cell.info.ended_by, cell.info.ended_by)}"
    return None


def _names(value: Json) -> Sequence[str]:
    return [str(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else ()
