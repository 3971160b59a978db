"""What a server says of itself, asked with safe requests only: nothing here makes it generate or changes its state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from harness.endpoint.counters import engine_of_counters
from harness.endpoint.dialects import DIALECTS, dialect_of
from harness.endpoint.dialects.base import Object, object_at
from harness.endpoint.dialects.prometheus import parse_counters
from harness.endpoint.errors import EndpointError
from harness.endpoint.side import JsonSource
from harness.records import ErrorKind, RequestError
from workloads.plan import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One model of the server; max_model_len is None if it does not say how long a context may be."""

    name: str
    max_model_len: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What the server said; engine and engine_version are None if it did not let us know."""

    engine: str | None
    engine_version: str | None
    models: tuple[ServedModel, ...]
    details: Mapping[str, Json] = field(default_factory=dict)


async def discover(client: JsonSource) -> Discovery:
    """Models, engine and version; EndpointError if the list of models cannot be had."""
    entries = _models(await client.get_json("/v1/models"))
    engine = _engine_by_models(entries)
    if engine is None:
        engine = await _engine_by_routes(client)
    identity = await dialect_of(engine).identify(client)
    models = tuple(
        ServedModel(
            name=str(entry["id"]),
            max_model_len=identity.context_tokens if identity.context_tokens is not None else _context(entry),
        )
        for entry in entries
    )
    return Discovery(engine=engine, engine_version=identity.version, models=models, details=identity.details)


def pick_model(discovery: Discovery, asked: str | None) -> ServedModel:
    """The model asked for, or the only one served; LookupError, listing the models, if that settles nothing.

    A model that is not in the list is taken as asked when the list is empty.
    """
    models = {model.name: model for model in discovery.models}
    listed = ", ".join(models)
    if asked is not None:
        if models and asked not in models:
            raise LookupError(f"the server does not serve {asked}; it serves {listed}")
        return models.get(asked, ServedModel(name=asked, max_model_len=None))
    if len(models) == 1:
        return next(iter(models.values()))
    if not models:
        raise LookupError("the server lists no model; name one with --model")
    raise LookupError(f"the server serves {len(models)} models; choose one with --model: {listed}")


async def token_counter(client: JsonSource) -> Callable[[str], Awaitable[int]] | None:
    """A count of a text's tokens by the server's own tokenizer; None if it has no /tokenize that we know."""
    try:
        await _count_tokens(client, "a")
    except EndpointError:
        return None

    async def count(text: str) -> int:
        return await _count_tokens(client, text)

    return count


async def tokenize(client: JsonSource, text: str) -> tuple[int, ...] | None:
    """A text's token ids by the server's own tokenizer, no special ones added; None if it does not give them."""
    try:
        answer = await client.post_json("/tokenize", {"prompt": text, "content": text, "add_special_tokens": False})
    except EndpointError:
        return None
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(tokens, list):
        return None
    ids = tuple(token for token in tokens if isinstance(token, int))
    return ids if len(ids) == len(tokens) else None


async def _count_tokens(client: JsonSource, text: str) -> int:
    """vLLM and SGLang read `prompt` and give `count`; llama.cpp reads `content` and gives the tokens only."""
    answer = await client.post_json("/tokenize", {"prompt": text, "content": text, "add_special_tokens": False})
    if isinstance(answer, dict):
        count, tokens = answer.get("count"), answer.get("tokens")
        if isinstance(count, int):
            return count
        if isinstance(tokens, list):
            return len(tokens)
    raise EndpointError(RequestError(kind=ErrorKind.GARBAGE, message="/tokenize gave neither a count nor tokens"))


def _models(listing: Json) -> list[Object]:
    data = listing.get("data") if isinstance(listing, dict) else None
    if not isinstance(data, list):
        raise EndpointError(RequestError(kind=ErrorKind.GARBAGE, message="/v1/models gave no list of models"))
    return [entry for entry in data if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def _context(entry: Object) -> int | None:
    meta = entry.get("meta")
    known = (entry.get("max_model_len"), entry.get("context_length"))
    for value in (*known, meta.get("n_ctx") if isinstance(meta, dict) else None):
        if isinstance(value, int):
            return value
    return None


def _engine_by_models(entries: list[Object]) -> str | None:
    """The engine by `owned_by`, or by a field that only its entries have."""
    owners = {str(entry.get("owned_by")).lower() for entry in entries}
    for dialect in DIALECTS.values():
        if owners & set(dialect.owners) or any(
            dialect.model_sign in entry for entry in entries if dialect.model_sign is not None
        ):
            return dialect.name
    return None


async def _engine_by_routes(client: JsonSource) -> str | None:
    """The engine behind a list of models that does not name it, by what only that engine answers."""
    for dialect in DIALECTS.values():
        if dialect.sign is not None and dialect.sign[1] in await object_at(client, dialect.sign[0]):
            return dialect.name
    try:
        return engine_of_counters(parse_counters(await client.get_text("/metrics")))
    except (EndpointError, ValueError):
        return None
