from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.checks.eviction.histories import HEALTHY
from workloads.cost import plan_cost
from workloads.eviction import eviction, imagined
from workloads.eviction_documents import QUESTION, code, document_of_tokens
from workloads.eviction_probes import shape_seen
from workloads.eviction_shape import EvictionOptions
from workloads.granularity import Rule
from workloads.material import Material
from workloads.phases import Past
from workloads.plan import Ask, Done, Flush, Observation, Step, TextPrompt, TokenPrompt, Wait
from workloads.text import approximate_count

MATERIAL = Material(seed=5, count=approximate_count, token_ids=tuple(range(100, 1600)))


@dataclass
class Server:
    """A prefix cache with blocks, salts, a first-in-first-out capacity, and states only at the ends of prompts."""

    block: int = 64
    capacity_blocks: int = 10**9
    sightings: int = 1
    salts: bool = True
    decodes: bool = False
    tells_ids: bool = True
    drop: int = 0
    kept: dict[tuple[str, tuple[int, ...]], int] = field(default_factory=dict)

    def answer(self, ask: Ask) -> Observation:
        assert isinstance(ask.prompt, TokenPrompt)
        ids, salt = ask.prompt.token_ids, str(ask.parameters.get("cache_salt", ""))
        ends = range((len(ids) - 1) // self.block * self.block, 0, -self.block)
        cached = next((n for n in ends if self.kept.get((salt, ids[:n]), 0) >= self.sightings), 0)
        last = (len(ids) - 1) // self.block * self.block
        if last:
            self.kept[salt, ids[:last]] = self.kept.pop((salt, ids[:last]), 0) + 1
        while sum(len(key[1]) // self.block for key in self.kept) > self.capacity_blocks:
            self.kept.pop(next(iter(self.kept)))
        written = self._written(ids, ask.max_tokens)
        decoded = (len(ids) + ask.max_tokens - 1) // self.block * self.block
        if self.decodes and decoded > last:
            self.kept[salt, (*ids, *written)[:decoded]] = self.sightings
        return Observation(
            key=ask.key,
            outcome="ok",
            prompt_tokens=len(ids),
            cached_tokens=max(0, cached - self.drop),
            token_ids=written if self.tells_ids else None,
        )

    def _written(self, ids: tuple[int, ...], tokens: int) -> tuple[int, ...]:
        """What the model writes: a function of everything before it."""
        found = ids
        for _ in range(tokens):
            found = (*found, sum(found) % 997)
        return found[len(ids) :]


@dataclass
class Played:
    steps: list[Step]
    seen: dict[str, Observation]

    def asks(self, arm: str) -> Iterator[tuple[Ask, Observation]]:
        return ((step, self.seen[step.key]) for step in self.steps if isinstance(step, Ask) and step.arm == arm)

    def distances(self, arm: str) -> list[int]:
        return [seen.prompt_tokens - seen.cached_tokens for _, seen in self.asks(arm)]  # type: ignore[operator]


def play(options: EvictionOptions, server: Server) -> Played:
    generator = eviction(MATERIAL, options)
    state, steps, seen = generator.start(), [], {}
    flying: list[Ask] = []
    observation: Observation | None = None
    for _ in range(20_000):
        state, step = generator.next(state, observation, 0)
        observation = None
        if isinstance(step, Done):
            assert not flying
            return Played(steps=steps, seen=seen)
        if isinstance(step, Wait):
            ask = flying.pop(0)
            observation = seen[ask.key] = server.answer(ask)
            continue
        steps.append(step)
        if isinstance(step, Flush):
            server.kept.clear()
            observation = Observation(key=step.key, outcome="ok")
        if isinstance(step, Ask):
            flying.append(step)
    raise AssertionError("the plan does not end")


def packed(played: Played) -> set[str | None]:
    """Prompts that are brought back together."""
    return {ask.session for ask, _ in played.asks("refilled-together")}


def test_every_arm_is_asked_and_meets_the_cache_as_it_is_meant_to() -> None:
    played = play(EvictionOptions(prompts=24, salt=True, flush=True), Server())
    wanted = {shot.arm for shot in HEALTHY} | {"returned-again", "short"}
    assert wanted <= {step.arm for step in played.steps if isinstance(step, Ask)}
    for cold in ("virgin", "cotraffic-cold", "returned", "returned-again", "short"):
        assert {seen.cached_tokens for _, seen in played.asks(cold)} == {0}, cold
    for warm in ("hit", "cotraffic-hit", "refilled"):
        assert all(seen.cached_tokens for _, seen in played.asks(warm)), warm


def test_hits_resume_right_before_the_answer_and_far_ones_512_tokens_earlier() -> None:
    played = play(EvictionOptions(prompts=24, salt=True, flush=True), Server())
    near = played.distances("hit")
    assert sum(distance <= 4 for distance in near) >= len(near) / 2
    assert set(near) <= {1, 2, 3, 4, 8, 16, 64}
    assert all(far - 512 in {0, *near} for far in played.distances("far") if far > 512)


@pytest.mark.parametrize("drop", [0, 64])
def test_prompts_resume_where_the_servers_prefill_chunk_ends_if_it_is_known(drop: int) -> None:
    options = EvictionOptions(prompts=12, salt=True, flush=True, chunk_tokens=512)
    played = play(options, Server(drop=drop))
    hits = [(ask, seen) for ask, seen in played.asks("hit") if ask.session not in packed(played)]
    assert len(hits) >= 12
    assert {seen.cached_tokens for _, seen in hits} == {512}
    assert all(ask.labels["aligned"] for ask, _ in hits)


def test_a_chunk_beyond_the_longest_prompt_aligns_nothing() -> None:
    played = play(EvictionOptions(prompts=6, salt=True, flush=True, chunk_tokens=8192), Server(drop=64))
    assert not any(ask.labels["aligned"] for ask, _ in played.asks("hit"))


def test_beginnings_that_are_asked_for_again_and_again_outlive_a_flood() -> None:
    options = EvictionOptions(prompts=24, salt=True, flush=True, cache_tokens=64 * 400)
    played = play(options, Server(capacity_blocks=400))
    partial = list(played.asks("partial"))
    assert len(partial) >= 4
    assert {(ask.session, seen.cached_tokens) for ask, seen in partial} <= {
        (ask.session, seen.cached_tokens) for ask, seen in played.asks("far")
    }
    assert not list(play(EvictionOptions(prompts=24, salt=True, flush=True), Server()).asks("partial"))


def test_short_prompts_are_brought_back_by_other_sessions_that_come_at_once() -> None:
    played = play(EvictionOptions(prompts=32, salt=True, flush=True), Server())
    together = list(played.asks("refilled-together"))
    assert len(together) >= 8
    assert all(seen.cached_tokens for _, seen in together)
    keys = [step.key for step in played.steps]
    for ask, _ in together:
        assert (ask.expected_prompt_tokens or 0) < 200
        at = keys.index(f"{ask.session}/other/0")
        leader = next(key for key in reversed(keys[:at]) if "/other/" not in key)
        assert "leader" in leader, "nobody waits between the stranger and those behind it"


def test_another_session_goes_on_behind_the_end_of_what_returns_by_a_fork() -> None:
    played = play(EvictionOptions(prompts=32, salt=True, flush=True), Server())
    forked = list(played.asks("refilled-fork"))
    assert len(forked) >= 6
    others = {step.key: step for step in played.steps if isinstance(step, Ask)}
    for ask, _ in forked:
        other = others[f"{ask.session}/other/0"].prompt
        assert isinstance(ask.prompt, TokenPrompt)
        assert isinstance(other, TokenPrompt)
        resume = len(ask.prompt.token_ids) - int(str(ask.labels["tail"]))
        assert other.token_ids[:resume] == ask.prompt.token_ids[:resume]
        assert len(other.token_ids) > resume + 64


def test_what_returned_is_asked_again_before_much_else_is() -> None:
    """A cache that holds a few prompts beside each other has them still."""
    played = play(EvictionOptions(prompts=32, salt=True, flush=True), Server(capacity_blocks=80))
    assert all(seen.cached_tokens for _, seen in played.asks("refilled"))


def test_the_last_token_of_some_prompts_is_what_a_cold_answer_to_the_rest_began_with() -> None:
    played = play(EvictionOptions(prompts=24, salt=True, flush=True), Server())
    stepped = {ask.session: (ask, seen) for ask, seen in played.asks("stepped")}
    assert len(stepped) >= 8
    for ask, seen in played.asks("hit"):
        if ask.labels.get("stepped") is not True:
            assert ask.session not in stepped
            continue
        before, told = stepped[ask.session]
        assert isinstance(ask.prompt, TokenPrompt)
        assert isinstance(before.prompt, TokenPrompt)
        assert told.token_ids is not None
        assert ask.prompt.token_ids == (*before.prompt.token_ids, told.token_ids[0])
        assert seen.prompt_tokens == (seen.cached_tokens or 0) + 1
        assert told.cached_tokens == 0


def test_without_ids_of_answers_prompts_stay_as_they_are() -> None:
    played = play(EvictionOptions(prompts=12, salt=True, flush=True), Server(tells_ids=False))
    assert not any(ask.labels.get("stepped") for ask, _ in played.asks("hit"))
    assert not list(played.asks("refilled-decode"))


def test_decoding_brings_back_what_the_model_wrote_itself() -> None:
    played = play(EvictionOptions(prompts=24, salt=True, flush=True), Server(decodes=True))
    refilled = list(played.asks("refilled-decode"))
    assert len(refilled) >= 3
    for ask, seen in refilled:
        assert seen.cached_tokens == (seen.prompt_tokens or 0) - 1
        filled = next(
            step
            for step in played.steps
            if isinstance(step, Ask) and step.arm == "decode-fill" and step.session == ask.session
        )
        assert isinstance(filled.prompt, TokenPrompt)
        assert isinstance(ask.prompt, TokenPrompt)
        assert len(filled.prompt.token_ids) == len(ask.prompt.token_ids) - 9
        assert ask.prompt.token_ids[: len(filled.prompt.token_ids)] == filled.prompt.token_ids


def test_a_confirming_round_has_long_tails_and_other_prompts() -> None:
    first = play(EvictionOptions(prompts=8, salt=True, flush=True), Server())
    again = play(EvictionOptions(name="r1", round_index=1, prompts=8, salt=True, flush=True, long_tails=True), Server())
    assert {33, 37} & set(again.distances("hit"))
    prompts = [{step.prompt for step in one.steps if isinstance(step, Ask)} for one in (first, again)]
    assert not prompts[0] & prompts[1]
    assert all(ask.labels["round"] == 1 for ask, _ in again.asks("hit"))


@pytest.mark.parametrize("block", [1, 16, 256])
def test_other_block_sizes_are_found_and_used(block: int) -> None:
    played = play(EvictionOptions(prompts=6, salt=True, flush=True), Server(block=block))
    assert all(0 < distance <= max(16, block) for distance in played.distances("hit"))


def test_a_server_that_hits_at_the_third_sighting_is_asked_a_third_time() -> None:
    played = play(EvictionOptions(prompts=6, salt=True, flush=True), Server(sightings=2))
    for arm in ("hit", "far", "refilled", "refilled-together"):
        assert all(seen.cached_tokens for _, seen in played.asks(arm)), arm
    assert len(list(played.asks("far"))) == 6


def test_what_hits_at_once_at_some_lengths_alone_is_asked_a_third_time_too() -> None:
    options = EvictionOptions(longest_tokens=832)
    points = {"832": (0, 768, 768), "790": (0, 768, 768), "665": (0, 0, 512), "457": (0, 0, 256)}
    past = Past(
        seen={
            f"r0/probe{number}/probe/{sighting}": Observation(
                key="", outcome="ok", prompt_tokens=int(length), cached_tokens=cached
            )
            for number, (length, counts) in enumerate(points.items())
            for sighting, cached in enumerate(counts)
        }
    )
    shape = shape_seen(options, past)
    assert shape is not None
    assert (shape.sightings, shape.rule) == (2, Rule(step=256, offset=1, drop=0))


def test_without_flush_a_flood_goes_on_until_a_sentinel_is_cold() -> None:
    played = play(EvictionOptions(prompts=6, cycles=1, flood_tokens=200_000), Server(capacity_blocks=400))
    assert not any(isinstance(step, Flush) for step in played.steps)
    assert any(seen.cached_tokens == 0 for _, seen in played.asks("sentinel"))
    assert {seen.cached_tokens for _, seen in played.asks("returned")} == {0}


def test_a_flood_that_evicts_nothing_ends_at_its_limit_and_prompts_return_all_the_same() -> None:
    played = play(EvictionOptions(prompts=6, cycles=1, flood_tokens=50_000), Server())
    flooded = sum(seen.prompt_tokens or 0 for _, seen in played.asks("flood"))
    assert flooded <= 2 * 50_000 + 10 * 768
    assert len(list(played.asks("returned"))) == 6


def test_a_server_that_never_hits_is_asked_little() -> None:
    played = play(EvictionOptions(prompts=32, salt=True, flush=True), Server(sightings=99))
    assert len(played.steps) == 12


def test_without_salt_the_cold_answer_is_the_first_one_and_far_resumes_come_after_an_eviction() -> None:
    played = play(EvictionOptions(prompts=8, cycles=1, flush=True), Server(salts=False))
    assert len(list(played.asks("virgin"))) == 8
    assert {seen.cached_tokens for _, seen in played.asks("virgin")} == {0}
    assert played.distances("far")


def test_the_cost_is_known_before_anything_is_asked() -> None:
    options = EvictionOptions(prompts=6, cycles=1, salt=True, flush=True)
    cost = plan_cost(eviction(MATERIAL, options), imagine=imagined)
    played = play(options, Server())
    asked = sum(isinstance(step, Ask) for step in played.steps)
    assert cost.complete
    assert abs(cost.requests - asked) <= 0.2 * asked


def test_documents_have_their_length_and_hold_their_code() -> None:
    text = document_of_tokens(3, "a", tokens=300, count=approximate_count, ending=QUESTION)
    assert approximate_count(text) == 300
    assert code(3, "a") in text
    assert text.endswith(QUESTION)
    assert code(3, "a") != code(3, "b")


def test_prompts_of_text_carry_their_code_as_a_label() -> None:
    material = Material(seed=5, count=approximate_count)
    generator = eviction(material, EvictionOptions(prompts=8, cycles=1, salt=True, flush=True))
    state, observation, labelled = generator.start(), None, []
    for _ in range(500):
        state, step = generator.next(state, observation, 0)
        if isinstance(step, Done):
            break
        observation = None
        if isinstance(step, Ask):
            observation = imagined(step)
            if step.arm == "virgin":
                assert isinstance(step.prompt, TextPrompt)
                labelled.append(str(step.labels["code"]) in step.prompt.text)
        if isinstance(step, Flush):
            observation = Observation(key=step.key, outcome="ok")
    assert labelled
    assert all(labelled)


def test_plans_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="too short"):
        EvictionOptions(longest_tokens=200)
    with pytest.raises(ValueError, match="at least one"):
        EvictionOptions(prompts=0)
