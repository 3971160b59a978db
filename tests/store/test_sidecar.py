from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.store.sidecar import WIDE, decode_times, encode_times

GAPS_NS = st.lists(st.integers(min_value=-(10**9), max_value=5 * 10**12), max_size=50)


@given(sent_ns=st.integers(min_value=0, max_value=2**60), gaps_ns=GAPS_NS)
def test_times_come_back_within_half_a_microsecond_however_many(sent_ns: int, gaps_ns: list[int]) -> None:
    times_ns = sent_ns + np.cumsum(np.array(gaps_ns, dtype=np.int64))
    deltas_us, wide = encode_times(sent_ns, times_ns)
    assert deltas_us.dtype.itemsize == 4
    back_ns = decode_times(sent_ns, deltas_us, wide)
    assert np.all(np.abs(back_ns - times_ns) <= 500)


def test_rounding_does_not_add_up() -> None:
    times_ns = [(index + 1) * 1_499 for index in range(100_000)]
    back_ns = decode_times(0, *encode_times(0, times_ns))
    assert abs(int(back_ns[-1]) - times_ns[-1]) <= 500


def test_a_gap_of_two_hours_is_kept() -> None:
    two_hours_ns = 7_200 * 10**9
    deltas_us, wide = encode_times(0, [1_000, two_hours_ns, two_hours_ns + 5_000])
    assert deltas_us.tolist() == [1, WIDE, 5]
    assert wide == [(1, 7_200 * 10**6 - 1)]
    assert decode_times(0, deltas_us, wide).tolist() == [1_000, two_hours_ns, two_hours_ns + 5_000]


def test_no_events_give_no_bytes() -> None:
    deltas_us, wide = encode_times(5, [])
    assert len(deltas_us) == 0
    assert wide == []
