"""Keys and how to keep them out of files, logs and reports."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

MASK = "***"
_SECRET_OPTION = re.compile(
    r"--?(?:[a-z0-9-]*[-_])?(?:key|keys|token|secret|password|passwd|authorization)",
    re.IGNORECASE,
)
_HEADER_OPTIONS = frozenset({"--header", "-H"})
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
_URL_USERINFO = re.compile(r"(?<=://)[^/\s?#@]+@")


class Secret:
    """A string that shows itself only through `reveal`; printing, formatting and JSON give the mask or fail."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The string itself, for the wire only."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")


def redact(text: str, secrets: Iterable[Secret]) -> str:
    """`text` with every secret and every userinfo of a URL masked."""
    for secret in secrets:
        if secret:
            text = text.replace(secret.reveal(), MASK)
    return redact_url(text)


def redact_url(text: str) -> str:
    """`text` with `user:password@` of any URL in it masked."""
    return _URL_USERINFO.sub(f"{MASK}@", text)


def redact_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line with the values of key and header options and the userinfo of URLs masked.

    Both `--api-key X` and `--api-key=X` are known, and `--header "Name: value"` keeps the name only where the name says
    that the value is harmless.
    """
    shown: list[str] = []
    previous = ""
    for word in argv:
        shown.append(_redact_word(previous, word))
        previous = word
    return tuple(shown)


def redact_command(text: str) -> str:
    """A command line in one string (a server's reported launch command) with its secrets masked."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return shlex.join(redact_argv(words)).replace(shlex.quote(MASK), MASK)


def _redact_word(previous: str, word: str) -> str:
    if previous in _HEADER_OPTIONS:
        return _redact_header(word)
    if _is_secret_option(previous) and not word.startswith("--"):
        return MASK
    option, equals, value = word.partition("=")
    if equals and option in _HEADER_OPTIONS:
        return f"{option}={_redact_header(value)}"
    if equals and (_is_secret_option(option) or _is_secret_variable(option)):
        return f"{option}={MASK}"
    return redact_url(word)


def _is_secret_option(option: str) -> bool:
    return _SECRET_OPTION.fullmatch(option) is not None


def _is_secret_variable(name: str) -> bool:
    return re.fullmatch(r"[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD)", name) is not None


def _redact_header(header: str) -> str:
    name, colon, _ = header.partition(":")
    if not colon or _SECRET_HEADER.search(name):
        return f"{name}{colon} {MASK}" if colon else MASK
    return header
