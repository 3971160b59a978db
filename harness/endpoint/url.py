"""The address of an endpoint as people type it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from harness.endpoint.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseUrl:
    """A server's address: `root` has no `/v1` and no userinfo, so it is safe to save.

    userinfo: the `user:password` that stood in the URL, for Basic authentication; None if there was none.
    """

    root: str
    userinfo: Secret | None = None

    def __str__(self) -> str:
        return self.root


def normalise_base_url(text: str) -> BaseUrl:
    """The address behind `text`, given with or without `/v1`, a trailing slash or a full route.

    Raises ValueError with a message for the user, who typed it.
    """
    text = text.strip()
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"the base URL must start with http:// or https://, not {parts.scheme}://")
    if not parts.hostname:
        raise ValueError("the base URL has no host")
    if parts.query or parts.fragment:
        raise ValueError("the base URL must not have a query or a fragment")
    _check_port(parts)
    userinfo, _, host = parts.netloc.rpartition("@")
    root = f"{parts.scheme}://{host}{_without_route(parts.path)}"
    return BaseUrl(root=root, userinfo=Secret(unquote(userinfo)) if userinfo else None)


def counter_page(text: str) -> str:
    """The whole address of a page of counters, at /metrics where none is named; ValueError with a message otherwise."""
    base = normalise_base_url(text)
    if base.userinfo is not None:
        raise ValueError("a page of counters is asked without a user and password")
    return base.root if urlsplit(base.root).path else f"{base.root}/metrics"


def _check_port(parts: SplitResult) -> None:
    try:
        port = parts.port
    except ValueError as error:
        raise ValueError(f"the base URL has a bad port: {error}") from None
    if port == 0:
        raise ValueError("the base URL has port 0")


def _without_route(path: str) -> str:
    path = path.rstrip("/")
    for route in ("/chat/completions", "/completions", "/v1"):
        path = path.removesuffix(route).rstrip("/")
    return path
