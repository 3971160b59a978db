"""times.u32: token times as little-endian u32 microsecond deltas, 4 bytes each.

The first delta of a request counts from its `sent_ns`, each further one from the event before. Each time is rounded
to a microsecond counted from `sent_ns` before the deltas are taken, so rounding never adds up. A delta that does not
fit (a gap of 71.6 minutes or more, or a step back) is stored as WIDE and kept beside the record, with its index.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

WIDE = 0xFFFF_FFFF
NS_PER_US = 1_000


def encode_times(
    sent_ns: int, event_times_ns: Sequence[int] | npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint32], list[tuple[int, int]]]:
    """The deltas in microseconds, u32[n], and (index, delta) of those that do not fit."""
    offsets_us = np.array(event_times_ns, dtype=np.int64)  # arithmetic in place: it is done once a request
    offsets_us -= sent_ns
    offsets_us += NS_PER_US // 2
    offsets_us //= NS_PER_US
    deltas_us = offsets_us.copy()
    deltas_us[1:] -= offsets_us[:-1]
    if not len(deltas_us) or (deltas_us.min() >= 0 and deltas_us.max() < WIDE):
        return deltas_us.astype("<u4"), []
    wide = np.flatnonzero((deltas_us < 0) | (deltas_us >= WIDE))
    wide_deltas = [(int(index), int(deltas_us[index])) for index in wide]
    deltas_us[wide] = WIDE
    return deltas_us.astype("<u4"), wide_deltas


def decode_times(
    sent_ns: int, deltas_us: npt.NDArray[np.uint32], wide_deltas: Sequence[tuple[int, int]]
) -> npt.NDArray[np.int64]:
    """Absolute times in nanoseconds, int64[n], each within half a microsecond of what was written."""
    whole_us = deltas_us.astype(np.int64)
    for index, delta_us in wide_deltas:
        whole_us[index] = delta_us
    return sent_ns + np.cumsum(whole_us) * NS_PER_US


class Segment(NamedTuple):
    """What belongs to one request: `events` deltas from `offset` on; wide as `encode_times` gives it."""

    offset: int
    events: int
    sent_ns: int
    wide: Sequence[tuple[int, int]] = ()

    @property
    def end(self) -> int:
        """The offset after its last delta."""
        return self.offset + self.events


def decode_segments(
    deltas_us: npt.NDArray[np.uint32], segments: Sequence[Segment]
) -> list[npt.NDArray[np.int64] | None]:
    """As `decode_times`, for each segment; None for one that the file does not hold whole.

    All times are views of one array, made by one running sum over the file: a million requests cost what one does.
    """
    there = len(deltas_us)
    held = sorted((each for each in segments if each.events and each.offset + each.events <= there), key=itemgetter(0))
    if any(left.offset + left.events > right.offset for left, right in pairwise(held)):
        return [_one(deltas_us, each) for each in segments]
    times_ns = _running_sum(deltas_us, held)
    return [
        times_ns[offset : offset + events] if offset + events <= there else None for offset, events, _, _ in segments
    ]


def _one(deltas_us: npt.NDArray[np.uint32], segment: Segment) -> npt.NDArray[np.int64] | None:
    if segment.end > len(deltas_us):
        return None
    return decode_times(segment.sent_ns, deltas_us[segment.offset : segment.end], segment.wide)


def _running_sum(deltas_us: npt.NDArray[np.uint32], held: Sequence[Segment]) -> npt.NDArray[np.int64]:
    """Times of the whole file: at the first delta of each segment the sum jumps to the time it counts from."""
    times_ns = deltas_us.astype(np.int64)
    for each in held:
        for index, delta_us in each.wide:
            times_ns[each.offset + index] = delta_us
    times_ns *= NS_PER_US
    if held:
        offsets = np.array([each.offset for each in held])
        begins_ns = np.array([each.sent_ns for each in held])
        ends_ns = begins_ns + np.add.reduceat(times_ns, offsets)
        times_ns[offsets[0]] += begins_ns[0] - times_ns[: offsets[0]].sum()
        times_ns[offsets[1:]] += begins_ns[1:] - ends_ns[:-1]
    return np.cumsum(times_ns, out=times_ns)
