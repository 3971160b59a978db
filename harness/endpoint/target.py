"""Which endpoint is asked, as whom, and how long it is waited for."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from harness.endpoint.secret import Secret
from harness.endpoint.url import BaseUrl

METRICS_PATH = "/metrics"
EndpointType = Literal["chat", "completions"]
ROUTES: Mapping[EndpointType, str] = MappingProxyType(
    {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Bounds of every wait, in seconds.

    connect_s: name lookup, TCP and TLS. first_byte_s: from the request written to the first byte of the answer's body.
    stall_s: between two arrivals of bytes. total_s: the whole request.
    """

    connect_s: float = 10.0
    first_byte_s: float = 600.0
    stall_s: float = 120.0
    total_s: float = 3600.0

    def __post_init__(self) -> None:
        for name in ("connect_s", "first_byte_s", "stall_s", "total_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"the timeout {name} must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An endpoint, the model asked there, and what authenticates us.

    headers: extra request headers, whose values are kept as secrets because they often are. rate_limit_retries: how
    often a request that was refused with 429 is sent again, after the wait that the server names. counter_pages: where
    the counters are, paths here or whole addresses of workers behind a router, which never get the key.
    """

    base: BaseUrl
    model: str
    endpoint_type: EndpointType = "chat"
    api_key: Secret | None = None
    headers: Mapping[str, Secret] = field(default_factory=dict)
    timeouts: Timeouts = field(default_factory=Timeouts)
    rate_limit_retries: int = 0
    counter_pages: tuple[str, ...] = (METRICS_PATH,)

    def __post_init__(self) -> None:
        if self.endpoint_type not in ROUTES:
            raise ValueError(f"the endpoint type is chat or completions, not {self.endpoint_type}")
        if self.rate_limit_retries < 0:
            raise ValueError("the number of retries cannot be negative")

    @property
    def route(self) -> str:
        """The path that requests go to, from the server's root."""
        return ROUTES[self.endpoint_type]

    def request_headers(self) -> dict[str, str]:
        """Headers of every request with their secrets revealed, for the wire only; `headers` wins over the key."""
        headers: dict[str, str] = {}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key.reveal()}"
        elif self.base.userinfo:
            encoded = base64.b64encode(self.base.userinfo.reveal().encode()).decode()
            headers["Authorization"] = f"Basic {encoded}"
        given = {name.lower() for name in self.headers}
        headers = {name: value for name, value in headers.items() if name.lower() not in given}
        return headers | {name: value.reveal() for name, value in self.headers.items()}

    def secrets(self) -> tuple[Secret, ...]:
        """Every string that must not be saved or shown, longest first.

        Of a header `Bearer X` the bare X is one too. Header values under 8 characters are left out: they are flags
        ("1", "true") rather than keys, and masking them would garble ordinary text.
        """
        values: set[str] = set()
        if self.api_key:
            values.add(self.api_key.reveal())
        for value in self.request_headers().values():
            values.update(part for part in (value, value.rpartition(" ")[2]) if len(part) >= 8)
        if self.base.userinfo:
            values.add(self.base.userinfo.reveal())
            values.add(self.base.userinfo.reveal().partition(":")[2])
        return tuple(Secret(value) for value in sorted(values, key=len, reverse=True) if value)


def parse_header(text: str) -> tuple[str, Secret]:
    """Name and value of a header given as `Name: value`; ValueError if it is not one."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or any(character in text for character in "\r\n\0"):
        raise ValueError("a header is given as 'Name: value'")
    return name.strip(), Secret(value.strip())
