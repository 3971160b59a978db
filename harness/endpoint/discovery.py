"""What a server says of itself, asked with safe requests only: nothing here makes it generate or changes its state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from harness.endpoint.counters import METRICS_PATH, engine_of_counters, parse_counters
from harness.endpoint.errors import EndpointError
from harness.endpoint.secret import redact_command
from harness.records import ErrorKind, RequestError
from workloads.plan import Json

Object = Mapping[str, Json]

_ENGINE_OF_OWNER: Mapping[str, str] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
    "tensorrt_llm": "tensorrt-llm",
}
_SGLANG_DETAILS = (
    "model_path",
    "tp_size",
    "dp_size",
    "page_size",
    "chunked_prefill_size",
    "max_total_num_tokens",
    "mamba_radix_cache_strategy",
    "mamba_track_interval",
    "max_mamba_cache_size",
    "kv_cache_dtype",
    "enable_cache_report",
    "enable_hierarchical_cache",
    "disable_radix_cache",
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_num_draft_tokens",
)
_LLAMA_CPP_DETAILS = ("total_slots", "model_path", "build_info")


class JsonSource(Protocol):
    """The part of a client that discovery uses; every method raises EndpointError on any trouble."""

    async def get_text(self, path: str) -> str:
        """The body of a GET."""
        ...

    async def get_json(self, path: str) -> Json:
        """The JSON of a GET."""
        ...

    async def post_json(self, path: str, body: Json) -> Json:
        """The JSON answer to a POST."""
        ...


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
    owners = {str(entry.get("owned_by")).lower() for entry in entries}
    engine = next((_ENGINE_OF_OWNER[owner] for owner in sorted(owners) if owner in _ENGINE_OF_OWNER), None)
    if engine is None:
        engine = await _engine_by_routes(client)
    version, details, context = await _identity(client, engine)
    models = tuple(
        ServedModel(name=str(entry["id"]), max_model_len=context if context is not None else _context(entry))
        for entry in entries
    )
    return Discovery(engine=engine, engine_version=version, models=models, details=details)


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
    for value in (entry.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, dict) else None):
        if isinstance(value, int):
            return value
    return None


async def _engine_by_routes(client: JsonSource) -> str | None:
    """The engine behind a list of models that does not name it, by what only that engine answers."""
    if "internal_states" in await _object(client, "/server_info"):
        return "sglang"
    if "total_slots" in await _object(client, "/props"):
        return "llama.cpp"
    try:
        return engine_of_counters(parse_counters(await client.get_text(METRICS_PATH)))
    except (EndpointError, ValueError):
        return None


async def _identity(client: JsonSource, engine: str | None) -> tuple[str | None, dict[str, Json], int | None]:
    """Version, details, and the context of one sequence where the list of models does not give the true one."""
    if engine == "sglang":
        info = await _object(client, "/server_info")
        info = info if info else await _object(client, "/get_server_info")
        return _text(info.get("version")), _sglang_details(info), None
    if engine == "llama.cpp":
        props = await _object(client, "/props")
        settings = props.get("default_generation_settings")
        context = settings.get("n_ctx") if isinstance(settings, dict) else None
        details = {name: props[name] for name in _LLAMA_CPP_DETAILS if name in props}
        return _text(props.get("build_info")), details, context if isinstance(context, int) else None
    version = _text((await _object(client, "/version")).get("version"))
    return version, await _vllm_details(client) if engine == "vllm" else {}, None


def _sglang_details(info: Object) -> dict[str, Json]:
    details = {name: info[name] for name in _SGLANG_DETAILS if info.get(name) is not None}
    command = info.get("launch_command")
    if isinstance(command, str):
        details["launch_command"] = redact_command(command)
    return details


async def _vllm_details(client: JsonSource) -> dict[str, Json]:
    """The labels of vllm:cache_config_info: block sizes and the like, which no other route shows."""
    try:
        names = parse_counters(await client.get_text(METRICS_PATH))
    except (EndpointError, ValueError):
        return {}
    found = next((name for name in names if name.startswith("vllm:cache_config_info{")), None)
    return {"cache_config_info": found} if found is not None else {}


async def _object(client: JsonSource, path: str) -> Object:
    """The JSON object of a GET; empty if the server has none there."""
    try:
        content = await client.get_json(path)
    except EndpointError:
        return {}
    return content if isinstance(content, dict) else {}


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None
