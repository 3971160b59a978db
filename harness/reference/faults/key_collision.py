"""K27: different prefixes share a key."""

from __future__ import annotations

from collections.abc import Sequence as Items

from harness.reference.faults.fault import Fault, FaultInfo, Mode, Parameter, override
from harness.reference.scheduler.engine import Engine


class KeyCollision(Fault):
    """A block's key leaves out something that its content depends on."""

    always = True

    info = FaultInfo(
        code="K27",
        name="KEY_COLLISION",
        modes=(
            Mode(
                name="parent",
                size="medium",
                effect="a block's key covers its place and its own tokens, not the blocks before it",
                trigger="a prompt made of blocks that others had at the same places",
            ),
            Mode(name="salt", size="accounting", effect="the salt is left out", trigger="one prompt with two salts"),
            Mode(
                name="tail",
                size="medium",
                effect="the last tokens of each block are left out",
                trigger="prompts that differ only in the last tokens of a block",
            ),
        ),
        parameters=(Parameter(name="tokens", default=4, help="tokens of a block that tail leaves out"),),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides naming blocks."""
        if engine.cache is None:
            return
        hasher = engine.cache.hasher
        root, extend = hasher.root, hasher.extend

        def chain_without_parents(tokens: Items[int], salt: str, known: list[bytes]) -> list[bytes]:
            size = hasher.block_size
            for index in range(len(known), len(tokens) // size):
                self.dice.roll()
                known.append(extend(root(f"{index}:{salt}"), tokens[index * size : (index + 1) * size]))
            return known

        def root_without_salt(salt: str) -> bytes:
            if salt:
                self.dice.roll()
            return root("")

        def extend_without_tail(parent: bytes, tokens: Items[int]) -> bytes:
            self.dice.roll()
            return extend(parent, tokens[: -self.number("tokens")])

        if self.mode == "parent":
            override(hasher, "chain", chain_without_parents)
        elif self.mode == "salt":
            override(hasher, "root", root_without_salt)
        else:
            override(hasher, "extend", extend_without_tail)
