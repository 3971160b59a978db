"""What a person should look at when a server cannot be asked."""

from __future__ import annotations

from harness.records import ErrorKind, RequestError

UNREACHABLE = {ErrorKind.CONNECT, ErrorKind.CONNECT_TIMEOUT, ErrorKind.FIRST_BYTE_TIMEOUT, ErrorKind.DISCONNECTED}
_NO_TLS_THERE = ("wrong_version_number", "wrong version number", "record layer failure", "unknown protocol")
_TLS_THERE = ("plain http request was sent to https", "http request to an https server", "\\x15\\x03", "tls")
_GATEWAY_STATUSES = (502, 503, 504)


def advice(root: str, error: RequestError) -> str:
    """One message for the user: what happened at `root`, and what to change."""
    for said in (_scheme(root, error), _in_between(root, error), _door(root, error)):
        if said is not None:
            return said
    if error.kind in UNREACHABLE:
        return f"cannot reach {root}: {error.message}. Is the server running, and are host, port and http/https right?"
    return f"{root} does not answer like an OpenAI-compatible server: {error.message}"


def _scheme(root: str, error: RequestError) -> str | None:
    """http where https is spoken, the other way round, and a certificate nobody vouches for."""
    words = error.message.lower()
    if root.startswith("https://") and any(each in words for each in _NO_TLS_THERE):
        return f"{root} speaks plain http, not https: give http://{root.removeprefix('https://')}"
    told = any(each in words for each in _TLS_THERE) and error.kind is not ErrorKind.CONNECT
    if root.startswith("http://") and told:
        return f"{root} speaks https, not plain http: give https://{root.removeprefix('http://')}"
    if root.startswith("http://") and error.kind is ErrorKind.DISCONNECTED:
        return (
            f"{root} dropped the connection without an answer ({error.message}), as a server does that speaks https:"
            f" try https://{root.removeprefix('http://')}"
        )
    if "certificate" in words:
        return (
            f"the certificate of {root} cannot be verified: {error.message}. If it is your own, name the file it is"
            " signed with in SSL_CERT_FILE"
        )
    return None


def _in_between(root: str, error: RequestError) -> str | None:
    """Redirects, proxies and login pages."""
    status, page = error.http_status, "<html" in error.message.lower() or "<!doctype" in error.message.lower()
    if status is not None and 300 <= status < 400:
        return (
            f"{root}: {error.message}, so that the key does not go to another host;"
            " if that is the server, give its address with --base-url"
        )
    if status == 407:
        return f"a proxy in front of {root} wants a login of its own (HTTP 407); go round it or log in there first"
    if status in _GATEWAY_STATUSES and page:
        return (
            f"a proxy answered for {root} (HTTP {status}) and not the server: it is down, still starting,"
            " or the proxy points elsewhere"
        )
    if page and status != 404:
        return f"{root} answered with a web page: a proxy, a login page or another service is in between"
    return None


def _door(root: str, error: RequestError) -> str | None:
    """The key and the path."""
    if error.http_status in (401, 403):
        return f"{root} refused the key (HTTP {error.http_status}): give it with --api-key or OPENAI_API_KEY"
    if error.http_status in (404, 405):
        return (
            f"{root} has no /v1/models (HTTP {error.http_status}): is the path right? --base-url is everything"
            " before /v1, such as http://host:8000"
        )
    return None
