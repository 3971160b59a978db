from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.store.sidecar import WIDE, Segment, decode_segments, decode_times, encode_times

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


CUTS = st.lists(st.tuples(st.integers(0, 10**12), GAPS_NS, st.integers(0, 3)), max_size=6)


@given(requests=CUTS, order=st.randoms(use_true_random=False))
def test_all_requests_of_a_file_at_once_are_each_as_if_alone(
    requests: list[tuple[int, list[int], int]], order: Random
) -> None:
    parts, segments, offset = [], [], 0
    for sent_ns, gaps_ns, nobodys in requests:
        deltas_us, wide = encode_times(sent_ns, sent_ns + np.cumsum(np.array(gaps_ns, dtype=np.int64)))
        segments.append(Segment(offset=offset, events=len(deltas_us), sent_ns=sent_ns, wide=wide))
        parts += [deltas_us, np.full(nobodys, 7, "<u4")]
        offset += len(deltas_us) + nobodys
    file = np.concatenate([np.empty(0, "<u4"), *parts])
    order.shuffle(segments)
    for each, found in zip(segments, decode_segments(file, segments), strict=True):
        assert found is not None
        assert found.tolist() == decode_times(each.sent_ns, file[each.offset : each.end], each.wide).tolist()


def test_a_segment_that_the_file_lacks_has_no_times_and_segments_may_overlap() -> None:
    file = np.array([1, 2, 3], "<u4")
    lacking = Segment(offset=2, events=2, sent_ns=0)
    assert decode_segments(file, [lacking, Segment(offset=1, events=1, sent_ns=5)])[0] is None
    twice = [Segment(offset=0, events=2, sent_ns=0), Segment(offset=1, events=2, sent_ns=10)]
    found = [times.tolist() for times in decode_segments(file, twice) if times is not None]
    assert found == [[1_000, 3_000], [2_010, 5_010]]
