"""What is known of the server, kept in every run folder: what it says of itself, and what the run itself tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.checks.history import Capabilities
from harness.drive.check_history import load_capabilities
from harness.endpoint.discovery import Discovery, ServedModel
from harness.endpoint.probe.passive import CountedPort, discovered
from harness.endpoint.probe.result import Capability, ProbeResult
from harness.records import TargetInfo
from harness.store import RunFolder, write_derived

PROBE_FILE = "probe.json"
TRIED = "tried in the capability round of this run"
# Names of capabilities: ours in checks, and the probe's.
_SAME = {
    "cached_in_whole": "cached_tokens_whole",
    "cached_in_stream": "cached_tokens_stream",
    "salt": "salt",
    "bypass": "cache_bypass",
    "flush": "flush",
    "token_id_prompts": "token_id_prompts",
}


async def keep_probe(run: RunFolder, client: CountedPort) -> ProbeResult:
    """Write probe.json: settings and counters, and what a capability round of the run has shown. One GET at most."""
    target = run.info.target
    found = await discovered(client, _discovery(target), _model(target), run.info.notes)
    tried = with_tried(found, load_capabilities(run))
    write_derived(run, PROBE_FILE, tried.as_json())
    return tried


def _model(target: TargetInfo) -> ServedModel:
    return ServedModel(name=target.model, max_model_len=target.max_model_len)


def _discovery(target: TargetInfo) -> Discovery:
    return Discovery(
        engine=target.engine,
        engine_version=target.engine_version,
        models=(_model(target),),
        details=target.details,
    )


def with_tried(found: ProbeResult, tried: Capabilities) -> ProbeResult:
    """The result with what a capability round showed in place of "not tried"."""
    works: dict[str, bool | None] = {name: getattr(tried, own) for own, name in _SAME.items()}
    if tried.logprobs is not None:
        works["logprobs"] = tried.logprobs > 0
        works["top_logprobs_20"] = tried.logprobs >= 20
    return replace(found, capabilities={**found.capabilities, **_seen(found.capabilities, works)})


def _seen(capabilities: Mapping[str, Capability], works: Mapping[str, bool | None]) -> dict[str, Capability]:
    return {
        name: Capability(works=answer, how=TRIED, enable_with="" if answer else capabilities[name].enable_with)
        for name, answer in works.items()
        if answer is not None
    }
