"""Profiles: what is read, and that every mistake is named with its line and with what may stand there."""

from __future__ import annotations

import datetime
from importlib.resources import files

import pytest

from harness.checks.verdict import Status
from harness.cli.gate_profiles import SHIPPED
from harness.gate.reading import ProfileError, read_profile

WHOLE = """\
name = "mine"
budget = "normal"
require = ["cached-tokens", "speculation"]
goodput = "ttft:500 tpot:50"
max_tokens_total = 1_000

[[check]]
name = "eviction"
required = true
blind_below_nats = 0.3

[[check]]
name = "mtp"
budget = "thorough"

[[check.limit]]
detail = "acceptance_length"
min = 2

[[objective]]
name = "chat-8"
concurrency = [8, 16]
request_rate = [2, 2.5]

[[objective.slo]]
metric = "p95_ttft_ms"
max = 900

[[waiver]]
check = "mtp"
reason = "known"
expires = 2027-01-31
status = ["suspect"]
"""


def test_a_whole_profile_is_read() -> None:
    profile = read_profile(WHOLE, "mine.toml")
    assert profile.name == "mine"
    assert profile.budget_of("eviction") == "normal"
    assert profile.budget_of("mtp") == "thorough"
    assert profile.goodput == {"ttft": 500.0, "tpot": 50.0}
    assert profile.percentiles == (50.0, 90.0, 95.0, 99.0)
    assert profile.objectives[0].sweep == {"concurrency": (8, 16), "request_rates": ("2", "2.5")}
    assert profile.waivers[0].statuses == (Status.SUSPECT,)
    assert profile.waivers[0].expires == datetime.date(2027, 1, 31)
    entry = profile.entry("mtp")
    assert entry is not None
    assert entry.limits[0].min == 2


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profiles_are_sound_and_explain_themselves(name: str) -> None:
    text = files("harness.gate").joinpath("profiles", f"{name}.toml").read_text(encoding="utf-8")
    assert read_profile(text, f"{name}.toml").name == name
    assert text.startswith("#")


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('budget = "normal"', 'budget = "big"', 2, "budget has to be one of small, normal, thorough, and is 'big'"),
        ('budget = "normal"', "budget = 3", 2, "and is 3"),
        ('budget = "normal"', 'bugdet = "normal"', 2, "did you mean budget?"),
        ('require = ["cached-tokens", "speculation"]', 'require = ["wings"]', 3, "and is 'wings'"),
        ('goodput = "ttft:500 tpot:50"', 'goodput = "ttft"', 4, "goodput 'ttft' is not an objective"),
        ("max_tokens_total = 1_000", "max_tokens_total = 0", 5, "a whole number of at least 1, and is 0"),
        ("max_tokens_total = 1_000", "max_tokens_total = true", 5, "and is true"),
        ('name = "eviction"', 'name = "evict"', 8, "[[check]] name has to be one of"),
        ("required = true", 'required = "yes"', 9, "true or false"),
        ("blind_below_nats = 0.3", "blind_below_nats = 0", 10, "a number above 0"),
        ('budget = "thorough"', 'budget = "huge"', 14, "[[check]] budget"),
        ("min = 2", "minimum = 2", 18, "[[check.limit]] minimum is not known"),
        ("min = 2", "", 17, "needs a min or a max"),
        ('name = "chat-8"', 'name = "Chat 8"', 21, "small letters"),
        ("concurrency = [8, 16]", "concurrency = [0]", 22, "at least 1"),
        ("concurrency = [8, 16]", "concurrency = 8", 22, "a list of whole numbers of at least 1, and is 8"),
        ('metric = "p95_ttft_ms"', 'metric = "p95_tttf_ms"', 26, "did you mean p99_ttft_ms"),
        ("max = 900", "", 26, "needs one of min, max"),
        ("expires = 2027-01-31", 'expires = "2027-01-31"', 32, "a date such as"),
        ("expires = 2027-01-31\n", "", 29, "expires is missing"),
        ('status = ["suspect"]', 'status = ["pass"]', 33, "fail, suspect, inconclusive"),
        ('name = "mtp"', 'name = "eviction"', 13, "stands there twice"),
    ],
)
def test_a_mistake_is_named_with_its_line(old: str, new: str, line: int, words: str) -> None:
    assert WHOLE.count(old) >= 1
    with pytest.raises(ProfileError) as caught:
        read_profile(WHOLE.replace(old, new, 1), "mine.toml")
    assert str(caught.value).startswith("mine.toml")
    assert f"line {line}:" in str(caught.value)
    assert words in str(caught.value)


def test_a_line_that_is_no_toml_is_named() -> None:
    with pytest.raises(ProfileError, match="line 2"):
        read_profile('name = "x"\nbudget = = 3\n', "mine.toml")


def test_a_profile_that_asks_for_nothing_is_refused() -> None:
    with pytest.raises(ProfileError, match=r"add a \[\[check\]\]"):
        read_profile('name = "x"\n', "mine.toml")
