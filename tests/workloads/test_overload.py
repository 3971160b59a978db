"""The overload plan: ever bigger bursts until something is refused, and the same few prompts before and after."""

from __future__ import annotations

from workloads import plan_cost
from workloads.cost import answered
from workloads.material import Material
from workloads.overload import AFTER_REPEATS, CANARIES, SESSIONS, SOLO_REPEATS, OverloadOptions, overload
from workloads.plan import Ask, Observation
from workloads.text import approximate_count
from workloads.waves import Waves

BEFORE = SESSIONS + CANARIES * (SOLO_REPEATS - 1)
AFTER = CANARIES * AFTER_REPEATS


def plan() -> Waves:
    material = Material(seed=1, count=approximate_count)
    return overload(material, OverloadOptions(name="r0", bursts=(10, 40), salt=True))


def test_every_burst_is_asked_of_a_server_that_takes_all() -> None:
    assert plan_cost(plan()).requests == BEFORE + 10 + AFTER + 40 + AFTER


def test_no_bigger_burst_once_something_was_refused() -> None:
    def refusing(ask: Ask) -> Observation:
        return Observation(key=ask.key, outcome="refused" if ask.key.endswith("/burst/1/9") else "ok")

    assert plan_cost(plan(), imagine=refusing).requests == BEFORE + 10 + AFTER


def test_each_prompt_states_a_fact_of_its_own_and_asks_for_it() -> None:
    asked: list[Ask] = []

    def note(ask: Ask) -> Observation:
        asked.append(ask)
        return answered(ask)

    plan_cost(plan(), imagine=note)
    facts = {str(ask.labels["codeword"]) for ask in asked}
    assert len(facts) == SESSIONS
    assert all(str(ask.labels["codeword"]) in str(ask.prompt) for ask in asked)
    assert len({ask.parameters["cache_salt"] for ask in asked}) == len(asked)
