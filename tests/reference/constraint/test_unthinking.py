"""Answers that must not hold any mark of reasoning."""

from __future__ import annotations

import numpy as np

from harness.reference.constraint.chat import THINK_END, THINK_START, Forms, Tool
from harness.reference.tokenizer import Tokenizer

TOKENIZER = Tokenizer.load()
FORMS = Forms(TOKENIZER)
MARKS = [TOKENIZER.id_of(THINK_START), TOKENIZER.id_of(THINK_END)]


def test_everything_but_the_marks_may_come_for_as_long_as_it_likes() -> None:
    constraint = FORMS.unthinking(None)
    for token in (5, 7, 5):
        mask = constraint.allowed()
        assert mask is not None and sorted(np.flatnonzero(~mask)) == sorted(MARKS)
        constraint = constraint.advance(token)
        assert not constraint.finished()


def test_what_would_hold_without_it_still_holds() -> None:
    tool = Tool(name="stop", parameters={"type": "object", "properties": {}})
    call = FORMS.call([tool])
    both = FORMS.unthinking(call)
    allowed, wanted = both.allowed(), call.allowed()
    assert allowed is not None and wanted is not None and np.array_equal(allowed, wanted)
    token = int(np.flatnonzero(wanted)[0])
    after, expected = both.advance(token).allowed(), call.advance(token).allowed()
    assert after is not None and expected is not None and np.array_equal(after, expected)
