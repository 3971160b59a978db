"""K34: the cache is on and hardly ever hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Items

from harness.reference.cache.prefix import Match, PrefixCache
from harness.reference.cache.tier import Key
from harness.reference.faults.fault import Fault, FaultInfo, Mode, Parameter, override
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.keeper import CacheKeeper
from harness.reference.scheduler.sequence import Sequence


class CacheInert(Fault):
    """Nothing is wrong but time: hits that should be are not."""

    info = FaultInfo(
        code="K34",
        name="CACHE_INERT",
        modes=(
            Mode(name="fallback", size="speed", effect="nothing ever hits", trigger="any prompt"),
            Mode(
                name="granularity",
                size="speed",
                effect="hits are rounded down to multiples of `tokens`",
                trigger="prompts below the granularity",
            ),
            Mode(
                name="fifo",
                size="speed",
                effect="use does not keep an entry: the oldest goes first",
                trigger="memory pressure",
            ),
            Mode(
                name="third",
                size="speed",
                effect="a state is kept only the third time it is offered",
                trigger="the second and third request with a prefix",
            ),
            Mode(
                name="tier", size="speed", effect="the host tier is never looked in", trigger="a return after eviction"
            ),
        ),
        parameters=(Parameter(name="tokens", default=4096, help="granularity of hits, in tokens"),),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides matching, keeping, or the order of use."""
        cache, keeper = engine.cache, engine.prefiller.keeper
        if cache is None or keeper is None:
            return
        if self.mode == "granularity":
            self._plant_granularity(cache, max(1, self.number("tokens") // engine.scheduler.limits.block_size))
        elif self.mode == "fifo":
            self._plant_order(cache)
        elif self.mode == "third":
            self._plant_third(keeper)
        else:
            self._plant_match(cache)

    def _plant_granularity(self, cache: PrefixCache, blocks: int) -> None:
        hit_blocks = cache.policy.hit_blocks

        def coarse_hit(latent_blocks: int, limit_tokens: int, has_state: Callable[[int], bool]) -> int:
            if not self.dice.roll():
                return hit_blocks(latent_blocks, limit_tokens, has_state)
            return hit_blocks(latent_blocks, limit_tokens, lambda block: block % blocks == 0 and has_state(block))

        override(cache.policy, "hit_blocks", coarse_hit)

    def _plant_order(self, cache: PrefixCache) -> None:
        touch = cache.device.touch

        def forget(key: Key) -> None:
            if not self.dice.roll():
                touch(key)

        override(cache.device, "touch", forget)

    def _plant_third(self, keeper: CacheKeeper) -> None:
        store, sightings = keeper.store_state, Counter[tuple[int, ...]]()

        def store_third(sequence: Sequence, position: int) -> None:
            prefix = tuple(sequence.tokens[:position])
            sightings[prefix] += 1
            if sightings[prefix] > 2 or not self.dice.roll():
                store(sequence, position)

        override(keeper, "store_state", store_third)

    def _plant_match(self, cache: PrefixCache) -> None:
        match = cache.match

        def match_less(keys: Items[bytes], limit_tokens: int) -> Match:
            if not self.dice.roll():
                return match(keys, limit_tokens)
            if self.mode == "fallback":
                return match((), limit_tokens)
            host, cache.host = cache.host, None
            found = match(keys, limit_tokens)
            cache.host = host
            return found

        override(cache, "match", match_less)
