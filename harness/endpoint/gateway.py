"""What gateways do that an engine does not: answering from a cache of whole answers, and saying so in a header."""

from __future__ import annotations

from collections.abc import Mapping

from harness.records import ErrorKind, RequestError

# Header to the word that means a hit; None where the header itself does. Names in lower case.
RESPONSE_CACHE: Mapping[str, str | None] = {
    "x-litellm-cache-key": None,
    "cf-aig-cache-status": "hit",
    "cf-cache-status": "hit",
    "helicone-cache": "hit",
    "x-portkey-cache-status": "hit",
    "x-cache": "hit",
}


def served_from_cache(headers: Mapping[str, str]) -> RequestError | None:
    """The error of an answer that a gateway had kept; None for any other. `headers` has lower-case names.

    The model did not run, so such an answer measures nothing: it is counted as refused, with this reason.
    """
    for name, word in RESPONSE_CACHE.items():
        value = headers.get(name)
        if value is not None and (word is None or value.strip().lower().startswith(word)):
            message = f"the gateway answered from its own cache of answers ({name}); switch that cache off"
            return RequestError(kind=ErrorKind.GATEWAY_CACHE, message=message)
    return None
