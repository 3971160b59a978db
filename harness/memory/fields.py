"""Reading a Hugging Face config.json: every field is asked for by name, and a missing one is said, never guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workloads.plan import Json


class ConfigError(ValueError):
    """The config cannot be read: the message names the model family and the fields that are missing or odd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The fields of one config, read with their types checked.

    family: what error messages call the model. Every reader raises ConfigError when a field is missing or malformed.
    """

    family: str
    values: Mapping[str, Json]

    def require(self, *names: str) -> None:
        """Raise ConfigError naming every field of `names` that the config lacks."""
        missing = [name for name in names if self.values.get(name) is None]
        if missing:
            raise ConfigError(f"{self.family}: the config has no {', '.join(missing)}")

    def whole(self, name: str) -> int:
        """A whole number of at least 0."""
        self.require(name)
        value = self.values[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigError(f"{self.family}: {name} is {value!r}, not a whole number")
        return value

    def whole_or_none(self, name: str) -> int | None:
        """A whole number, or None where the field is absent or null."""
        return None if self.values.get(name) is None else self.whole(name)

    def whole_or(self, name: str, default: int) -> int:
        """A whole number, or the default that the model's own code documents for an absent field."""
        return default if self.values.get(name) is None else self.whole(name)

    def first(self, *names: str) -> int:
        """The first of several spellings of the same field."""
        for name in names:
            if self.values.get(name) is not None:
                return self.whole(name)
        raise ConfigError(f"{self.family}: the config has none of {', '.join(names)}")

    def flag(self, name: str, default: bool) -> bool:
        """True or false; the default is what the model's own code takes for an absent field."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ConfigError(f"{self.family}: {name} is {value!r}, not true or false")
        return value

    def text(self, name: str) -> str | None:
        """A string, or None where the field is absent."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{self.family}: {name} is {value!r}, not a text")
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of strings, or None where the field is absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(v, str) for v in value):
            raise ConfigError(f"{self.family}: {name} is not a list of texts")
        return tuple(str(item) for item in value)

    def wholes(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        self.require(name)
        value = self.values[name]
        if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(v, int) for v in value):
            raise ConfigError(f"{self.family}: {name} is not a list of whole numbers")
        return tuple(item for item in value if isinstance(item, int))

    def nested(self, name: str) -> Fields:
        """The fields of an object inside the config."""
        self.require(name)
        value = self.values[name]
        if not isinstance(value, Mapping):
            raise ConfigError(f"{self.family}: {name} is not an object")
        return Fields(family=f"{self.family}, {name}", values=value)
