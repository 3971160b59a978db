"""times.u32: token times as little-endian u32 microsecond deltas, 4 bytes each.

The first delta of a request counts from its `sent_ns`, each further one from the event before. Each time is rounded
to a microsecond counted from `sent_ns` before the deltas are taken, so rounding never adds up. A delta that does not
fit (a gap of 71.6 minutes or more, or a step back) is stored as WIDE and kept beside the record, with its index.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

WIDE = 0xFFFF_FFFF
NS_PER_US = 1_000


def encode_times(
    sent_ns: int, event_times_ns: Sequence[int] | npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint32], list[tuple[int, int]]]:
    """The deltas in microseconds, u32[n], and (index, delta) of those that do not fit."""
    since_sent_ns = np.asarray(event_times_ns, dtype=np.int64) - sent_ns
    offsets_us = (since_sent_ns + NS_PER_US // 2) // NS_PER_US
    deltas_us = np.diff(offsets_us, prepend=0)
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
