"""Traffic that brings out each planted fault, and traffic beside its trigger that must not.

A scenario drives an engine step by step and names some of its requests as victims: those a fault should reach. Their
tokens can be fixed beforehand, so that a healthy and a faulty engine are asked for the same distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from harness.reference.config import ModelConfig
from harness.reference.options import EngineOptions
from harness.reference.sampling import SamplingParams, TokenLogprob
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.request import Request, Usage

Material = Callable[[str, int], list[int]]
"""So many token ids of the text of a name; a longer one begins with the shorter."""

Changes = dict[str, object]


@dataclass(frozen=True)
class Follow:
    """A constraint that leaves one token at a time, and everything after the last."""

    tokens: tuple[int, ...]
    vocab: int

    def allowed(self) -> npt.NDArray[np.bool_] | None:
        if not self.tokens:
            return None
        mask = np.zeros(self.vocab, bool)
        mask[self.tokens[0]] = True
        return mask

    def advance(self, token: int) -> Follow:
        return Follow(self.tokens[1:], self.vocab)

    def finished(self) -> bool:
        return False


@dataclass
class Answer:
    """Everything one request got; logprobs are those of the whole vocabulary, for victims alone."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    usage: Usage | None = None


class Player:
    """Sends requests to an engine and collects answers; ``follow`` fixes the tokens of the victims, in order."""

    def __init__(
        self,
        engine: Engine,
        options: EngineOptions,
        config: ModelConfig,
        material: Material,
        *,
        victim_tokens: int,
        follow: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.engine, self.options, self.config = engine, options, config
        self.material, self.victim_tokens, self.follow = material, victim_tokens, follow
        self.block = options.block_size
        self.answers: dict[str, Answer] = {}
        self.victims: list[Answer] = []

    def submit(
        self, prompt: Sequence[int], *, tokens: int = 2, victim: bool = False, salt: str = "", temperature: float = 0.0
    ) -> str:
        """Hands a request in; a victim's number of tokens is the same for all."""
        name, constraint = f"r{len(self.answers)}", None
        if victim and self.follow is not None:
            constraint = Follow(tuple(self.follow[len(self.victims)]), self.config.vocab_size)
        sampling = SamplingParams(
            temperature=temperature,
            max_tokens=self.victim_tokens if victim else tokens,
            ignore_eos=True,
            logprobs=self.config.vocab_size if victim else None,
        )
        self.answers[name] = Answer()
        if victim:
            self.victims.append(self.answers[name])
        request = Request(
            request_id=name, prompt=tuple(prompt), sampling=sampling, cache_salt=salt, constraint=constraint
        )
        self.engine.submit(request)
        return name

    def run(self, steps: int = 100_000) -> None:
        """Runs so many steps, or until nothing is left to do."""
        for _ in range(steps):
            if not self.engine.busy:
                return
            for delta in self.engine.step():
                answer = self.answers[delta.request_id]
                answer.tokens += delta.tokens
                answer.logprobs += delta.logprobs
                answer.usage = delta.usage

    def send(self, prompt: Sequence[int], **how: object) -> Answer:
        """Hands a request in and waits for its answer."""
        name = self.submit(prompt, **how)  # type: ignore[arg-type]
        self.run()
        return self.answers[name]

    def text(self, name: str, blocks: int, more: int = 0) -> list[int]:
        """Tokens of so many blocks and some more."""
        return self.material(name, blocks * self.block + more)


def plain(options: EngineOptions, config: ModelConfig) -> Changes:
    """Nothing beside the common options."""
    return {}


@dataclass(frozen=True)
class Scenario:
    """What is sent, and the options it needs beside the common ones."""

    play: Callable[[Player], None]
    options: Callable[[EngineOptions, ModelConfig], Changes] = plain

    def settings(self, base: EngineOptions, config: ModelConfig) -> EngineOptions:
        """The options of the engine it is played on."""
        return replace(base, **self.options(base, config))


def resend(tail: int, blocks: int = 7) -> Callable[[Player], None]:
    """One prompt twice: a hit that leaves ``tail`` tokens."""

    def play(player: Player) -> None:
        prompt = player.text("a", blocks, tail)
        player.send(prompt, tokens=player.block + 4)
        player.send(prompt, victim=True)

    return play


def cold(player: Player) -> None:
    """One prompt once."""
    player.send(player.text("a", 7, 5), victim=True)


def thrice(tail: int) -> Callable[[Player], None]:
    """One prompt three times, the third as the later sharer of what the second had."""

    def play(player: Player) -> None:
        prompt = player.text("a", 7, tail)
        player.send(prompt)
        player.send(prompt, tokens=1)
        player.send(prompt, victim=True)

    return play


def many_snapshots(player: Player) -> None:
    """As many states as a pool holds are kept before the one that is hit."""
    player.send(player.text("x", 7, 5))
    resend(5)(player)


def fork(player: Player) -> None:
    """A prefix whose latents reach deeper than its state."""
    player.send(player.text("a", 7, 5))
    player.send(player.text("a", 5) + player.text("b", 1, 5), victim=True)


def fill_together(player: Player) -> None:
    """A prompt prefilled behind another one in the same batch, then hit alone."""
    prompt = player.text("a", 3, 5)
    player.submit(player.text("x", 1, 3))
    player.submit(prompt)
    player.run()
    player.send(prompt, victim=True)


def fill_alone(player: Player) -> None:
    """The same prompts one after the other."""
    prompt = player.text("a", 3, 5)
    player.send(player.text("x", 1, 3))
    player.send(prompt)
    player.send(prompt, victim=True)


def over_chunk(tail: int, blocks: int = 0) -> Callable[[Player], None]:
    """A prompt of one whole chunk, some blocks and some tokens."""

    def play(player: Player) -> None:
        chunk = player.options.chunk // player.block * player.block
        player.send(player.material("a", chunk + blocks * player.block + tail), victim=True)

    return play


def next_tenant(player: Player) -> None:
    """A new, short prompt in a slot that was used before."""
    player.send(player.text("x", 7, 5))
    player.send(player.text("a", 1, 5), victim=True)


def together(count: int, *, temperature: float = 0.0) -> Callable[[Player], None]:
    """Several prompts at once."""

    def play(player: Player) -> None:
        for index in range(count):
            player.submit(player.text(f"a{index}", 3, 5), victim=True, temperature=temperature)
        player.run()

    return play


def preempted(player: Player) -> None:
    """A sequence is preempted while it decodes, with nothing left in the cache."""
    player.submit(player.text("a", 3, 5), victim=True)
    player.run(6)
    player.engine.reset_cache(force=True)
    player.run()


def preempted_with_cache(player: Player) -> None:
    """A sequence is preempted while it decodes and finds its prefix in the cache."""
    player.submit(player.text("a", 3, 5), victim=True)
    player.run(6)
    player.engine.scheduler.preempt_all()
    player.run()


def aborted(player: Player) -> None:
    """A sequence is aborted and its slot taken at once; the newcomer's prompt is sent again."""
    doomed = player.submit(player.text("x", 5, 5), tokens=40)
    player.run(3)
    player.engine.abort(doomed)
    prompt = player.text("a", 3, 5)
    player.send(prompt, victim=True)
    player.send(prompt, victim=True)


def not_aborted(player: Player) -> None:
    """The same without an abort."""
    prompt = player.text("a", 3, 5)
    player.send(player.text("x", 5, 5), tokens=4)
    player.send(prompt, victim=True)
    player.send(prompt, victim=True)


def freed_slot(player: Player) -> None:
    """A slot freed by a short answer has a new owner in a batch of three."""
    player.submit(player.text("x", 2, 3), tokens=1)
    player.submit(player.text("y", 2, 3), tokens=60)
    player.submit(player.text("z", 2, 3), tokens=60)
    player.run(2)
    player.submit(player.text("a", 2, 3), victim=True)
    player.run()


def churn(player: Player) -> None:
    """Long answers beside short ones that end at different steps."""
    for index in range(2):
        player.submit(player.text(f"a{index}", 2, 3), victim=True)
    for index in range(8):
        player.submit(player.text(f"x{index}", 1, 3), tokens=2 + index % 3)
        player.run(2)
    player.run()


def long_then_other(player: Player) -> None:
    """A long prompt, then a short one in the same slot."""
    player.send(player.text("x", 7, 5))
    player.send(player.text("a", 2, 5), victim=True)


def answers_in_turn(count: int, *, temperature: float = 0.0) -> Callable[[Player], None]:
    """Several prompts, one after the other."""

    def play(player: Player) -> None:
        for index in range(count):
            player.send(player.text(f"a{index}", 3, 5), victim=True, temperature=temperature)

    return play


def beside_decode(player: Player) -> None:
    """A resend with one token left, beside a sequence that decodes."""
    prompt = player.text("a", 7, 1)
    player.send(prompt)
    player.submit(player.text("x", 2, 3), tokens=80)
    player.run(3)
    player.submit(prompt, victim=True)
    player.run()


def twins(player: Player) -> None:
    """A prompt made of the first block of one and the later blocks of another."""
    player.send(player.text("a", 7, 5))
    player.send(player.text("b", 7, 5))
    player.send(player.text("a", 1) + player.text("b", 7, 5)[player.block :], victim=True)


def two_salts(player: Player) -> None:
    """One prompt with two salts."""
    player.send(player.text("a", 7, 5), salt="one")
    player.send(player.text("a", 7, 5), salt="two", victim=True)


def like_tails(player: Player) -> None:
    """Two prompts that differ in the last tokens of one block."""
    first, other = player.text("a", 7, 5), player.text("b", 7, 5)
    player.send(first)
    changed = slice(2 * player.block - 3, 2 * player.block)
    second = [*first]
    second[changed] = other[changed]
    player.send(second, victim=True)


def evicted(player: Player) -> None:
    """A prompt returns after others took its memory, and once more at once."""
    prompt = player.text("a", 7, 5)
    player.send(prompt)
    for index in range(8):
        player.send(player.text(f"x{index}", 7, 5), tokens=1)
    player.send(prompt, victim=True)
    player.send(prompt, victim=True)


def speculating(options: EngineOptions, config: ModelConfig) -> Changes:
    """Three drafts a step."""
    return {"speculative_tokens": 3}


def small_memory(options: EngineOptions, config: ModelConfig) -> Changes:
    """Memory for little more than one sequence of the longest length."""
    longest = 24 * options.block_size
    sequence = config.state_bytes + 26 * options.block_size * config.latent_bytes
    return {"max_model_len": longest, "cache_bytes": sequence + 2 * config.state_bytes}


def host_tier(options: EngineOptions, config: ModelConfig) -> Changes:
    """The same with a host tier that holds everything."""
    return {**small_memory(options, config), "host_bytes": 256 << 20}


def joined(*parts: Callable[[EngineOptions, ModelConfig], Changes]) -> Callable[[EngineOptions, ModelConfig], Changes]:
    """Several changes together."""

    def options(base: EngineOptions, config: ModelConfig) -> Changes:
        return {name: value for part in parts for name, value in part(base, config).items()}

    return options


def fixed(**changes: object) -> Callable[[EngineOptions, ModelConfig], Changes]:
    """Changes that depend on nothing."""
    return lambda options, config: dict(changes)


SPECULATING_BESIDE = joined(speculating, fixed(policy="fork"))

SCENARIOS: dict[str, Scenario] = {
    "cold": Scenario(cold),
    "resend": Scenario(resend(5)),
    "resend, tail 1": Scenario(resend(1)),
    "resend, exact": Scenario(resend(0)),
    "resend, even block": Scenario(resend(5, blocks=8)),
    "resend, three times, tail 1": Scenario(thrice(1)),
    "resend, three times, tail 5": Scenario(thrice(5)),
    "resend after others": Scenario(many_snapshots),
    "fork": Scenario(fork),
    "filled together": Scenario(fill_together),
    "filled alone": Scenario(fill_alone),
    "over a chunk": Scenario(over_chunk(5, blocks=1)),
    "over a chunk by one": Scenario(over_chunk(1)),
    "whole grid": Scenario(over_chunk(0), fixed(chunk=64)),
    "next tenant": Scenario(next_tenant),
    "four together": Scenario(together(4)),
    "three together": Scenario(together(3)),
    "three together, all slots": Scenario(together(3), fixed(slots=3)),
    "two together": Scenario(together(2)),
    "eight together": Scenario(together(8), fixed(slots=8)),
    "preempted": Scenario(preempted),
    "preempted, cached": Scenario(preempted_with_cache),
    "aborted": Scenario(aborted),
    "not aborted": Scenario(not_aborted),
    "freed slot": Scenario(freed_slot),
    "churn": Scenario(churn),
    "churn, speculating": Scenario(churn, speculating),
    "two together, speculating": Scenario(together(2), speculating),
    "long, then other": Scenario(long_then_other),
    "in turn": Scenario(answers_in_turn(4)),
    "in turn, speculating": Scenario(answers_in_turn(4), speculating),
    "in turn, sampled": Scenario(answers_in_turn(4, temperature=1.0), speculating),
    "together, sampled": Scenario(together(4, temperature=1.0), speculating),
    "resend, speculating": Scenario(resend(5), speculating),
    "beside decode": Scenario(beside_decode, SPECULATING_BESIDE),
    "beside decode, no drafts": Scenario(beside_decode, fixed(policy="fork")),
    "twins": Scenario(twins),
    "two salts": Scenario(two_salts),
    "like tails": Scenario(like_tails),
    "evicted": Scenario(evicted, small_memory),
    "back from host": Scenario(evicted, host_tier),
    "back from host, speculating": Scenario(evicted, joined(speculating, host_tier)),
}


@dataclass(frozen=True)
class Proof:
    """Where a fault's mode shows, where it must not, and parameters that suit short prompts."""

    trigger: str
    control: str
    parameters: str = ""


PROOFS: dict[tuple[str, str], Proof] = {
    ("K01", "skip"): Proof("resend", "next tenant"),
    ("K01", "cleared"): Proof("resend", "next tenant"),
    ("K01", "multitoken"): Proof("resend", "resend, tail 1"),
    ("K02", "zero"): Proof("resend", "next tenant"),
    ("K02", "random"): Proof("resend", "next tenant"),
    ("K02", "previous"): Proof("resend after others", "next tenant"),
    ("K03", "early"): Proof("resend", "next tenant"),
    ("K03", "late"): Proof("resend", "next tenant"),
    ("K03", "units"): Proof("resend", "resend, even block"),
    ("K03", "packed"): Proof("filled together", "filled alone"),
    ("K04", "full"): Proof("resend, exact", "resend"),
    ("K05", "zero"): Proof("resend", "next tenant"),
    ("K05", "stale"): Proof("resend", "next tenant"),
    ("K05", "write"): Proof("resend, three times, tail 1", "resend, three times, tail 5"),
    ("K06", "view"): Proof("resend", "next tenant"),
    ("K07", "cast"): Proof("resend", "next tenant"),
    ("K07", "unaligned"): Proof("resend", "resend, even block"),
    ("K07", "fp8"): Proof("resend", "next tenant"),
    ("K07", "reinterpret"): Proof("resend", "next tenant"),
    ("K08", "layer"): Proof("resend", "next tenant"),
    ("K08", "rank"): Proof("resend", "next tenant"),
    ("K08", "sidecar"): Proof("resend", "next tenant"),
    ("K08", "crossed"): Proof("resend", "next tenant"),
    ("K09", "double"): Proof("resend", "next tenant"),
    ("K09", "mtp"): Proof("resend, speculating", "resend"),
    ("K09", "gap"): Proof("fork", "resend"),
    ("K10", "transposed"): Proof("over a chunk", "filled alone"),
    ("K10", "padding"): Proof("over a chunk", "whole grid"),
    ("K10", "decay"): Proof("over a chunk", "filled alone"),
    ("K10", "single"): Proof("over a chunk by one", "over a chunk"),
    ("K11", "unzeroed"): Proof("next tenant", "resend"),
    ("K12", "modulo"): Proof("four together", "two together"),
    ("K13", "preempt"): Proof("preempted", "next tenant"),
    ("K13", "rewind"): Proof("resend", "fork"),
    ("K14", "slot"): Proof("aborted", "not aborted"),
    ("K14", "block"): Proof("aborted", "not aborted"),
    ("K15", "first"): Proof("three together", "two together"),
    ("K15", "last"): Proof("three together, all slots", "two together"),
    ("K15", "parked"): Proof("freed slot", "two together"),
    ("K17", "counts"): Proof("churn, speculating", "two together, speculating"),
    ("K17", "states"): Proof("churn", "two together"),
    ("K18", "skip"): Proof("eight together", "four together"),
    ("K19", "snapshot"): Proof("resend", "filled alone", "tokens=50"),
    ("K19", "slot"): Proof("long, then other", "filled alone", "tokens=50"),
    ("K20", "keep"): Proof("in turn, speculating", "in turn"),
    ("K21", "early"): Proof("in turn, speculating", "in turn"),
    ("K21", "late"): Proof("in turn, speculating", "in turn"),
    ("K21", "uncommitted"): Proof("in turn, speculating", "in turn"),
    ("K21", "column"): Proof("in turn, speculating", "in turn"),
    ("K21", "crossing"): Proof("in turn, speculating", "in turn"),
    ("K22", "shifted"): Proof("in turn, speculating", "in turn"),
    ("K22", "mixed"): Proof("in turn, speculating", "in turn"),
    ("K23", "before"): Proof("beside decode", "beside decode, no drafts"),
    ("K23", "after"): Proof("beside decode", "beside decode, no drafts"),
    ("K24", "hit"): Proof("resend, speculating", "in turn, speculating"),
    ("K24", "tier"): Proof("back from host, speculating", "resend, speculating"),
    ("K24", "partial"): Proof("in turn, speculating", "in turn"),
    ("K24", "deep"): Proof("in turn, speculating", "in turn"),
    ("K24", "norm"): Proof("in turn, speculating", "in turn"),
    ("K25", "threshold"): Proof("in turn, sampled", "in turn, speculating"),
    ("K25", "row"): Proof("together, sampled", "in turn, sampled"),
    ("K25", "exact"): Proof("in turn, sampled", "in turn, speculating"),
    ("K27", "parent"): Proof("twins", "resend"),
    ("K27", "tail"): Proof("like tails", "resend"),
    ("K28", "mapped"): Proof("evicted", "resend"),
    ("K29", "stale"): Proof("back from host", "resend"),
    ("K29", "partial"): Proof("back from host", "resend"),
    ("K29", "swap"): Proof("back from host", "resend"),
}
"""The faults that change answers or drafts; accounting and speed are told apart by counts."""
