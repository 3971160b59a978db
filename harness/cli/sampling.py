"""Sampling options, as they go into the body of every request."""

from __future__ import annotations

import json
from collections.abc import Mapping

from workloads.plan import Json


def read_sampling(given: Mapping[str, object]) -> dict[str, Json]:
    """Body fields of every request from the options of that name; --extra-body wins over those it repeats.

    ValueError says what is wrong with --extra-body.
    """
    chosen = {name: given[name] for name in ("temperature", "top_p", "top_k") if given[name] is not None}
    if given["ignore_eos"]:
        chosen["ignore_eos"] = True
    text = given["extra_body"]
    try:
        extra = json.loads(str(text)) if text is not None else {}
    except json.JSONDecodeError as error:
        raise ValueError(f"--extra-body is not JSON: {error}") from None
    if not isinstance(extra, dict):
        raise ValueError('--extra-body must be a JSON object, such as {"min_p": 0.1}')
    reserved = sorted({"model", "messages", "prompt", "stream", "max_tokens"} & set(extra))
    if reserved:
        raise ValueError(f"--extra-body may not set {', '.join(reserved)}: each request brings its own")
    return {**chosen, **extra}
