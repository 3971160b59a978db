"""The framing of recorded streams."""

from __future__ import annotations

from harness.checks.framing import Framing
from harness.drive.framing import framing_of, message_fields_of

FINISH = b'data: {"choices":[{"index":0,"text":"b","finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"


def test_a_well_formed_stream() -> None:
    body = b'data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n' + FINISH + USAGE + DONE
    assert framing_of(body) == Framing(finish_reasons=("stop",), done_markers=1)


def test_text_after_the_finish_and_events_after_done_are_counted() -> None:
    late = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
    assert framing_of(FINISH + late + DONE + USAGE) == Framing(
        finish_reasons=("stop",), texts_after_finish=1, done_markers=1, events_after_done=1
    )


def test_an_empty_last_delta_is_no_text() -> None:
    empty = b'data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}\n\n'
    framing = framing_of(FINISH + empty + DONE)
    assert framing is not None and framing.texts_after_finish == 0


def test_other_choices_and_broken_events_are_passed_over() -> None:
    other = b'data: {"choices":[{"index":1,"text":"z","finish_reason":"stop"}]}\n\ndata: nonsense\n\n'
    assert framing_of(other + FINISH + DONE) == Framing(finish_reasons=("stop",), done_markers=1)


def test_a_whole_answer_has_no_framing() -> None:
    assert framing_of(b'{"choices": []}') is None


def test_fields_of_messages_are_those_that_held_anything() -> None:
    whole = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "", "reasoning": "Hm"}}]}'
    assert message_fields_of(whole) == {"role", "reasoning"}
    events = [
        b'{"choices": [{"delta": {"reasoning_content": null, "content": "a"}}]}',
        b'{"choices": [{"delta": {"reasoning_content": "b"}}]}',
        b'{"choices": []}',
        b"not json",
        b"[DONE]",
    ]
    assert message_fields_of(b"".join(b"data: %b\n\n" % event for event in events)) == {"content", "reasoning_content"}
    assert message_fields_of(b'{"choices": [{"text": "a"}]}') == frozenset() == message_fields_of(b"")
