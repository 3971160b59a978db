"""Real texts for drafting that stand on every machine with Python: its own documentation and sources."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping

from workloads.mtp import DOCUMENTATION, SOURCE

MODULES = (
    "argparse",
    "ast",
    "calendar",
    "csv",
    "difflib",
    "fractions",
    "heapq",
    "ipaddress",
    "json.decoder",
    "textwrap",
)


def found_texts() -> Mapping[str, str]:
    """By class: the language's reference in prose, and modules of the standard library (both under the PSF licence).

    A class whose text is not installed is left out.
    """
    texts = {DOCUMENTATION: _documentation(), SOURCE: _sources()}
    return {name: text for name, text in texts.items() if text}


def _documentation() -> str:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return ""
    return "\n\n".join(topics[name] for name in sorted(topics))


def _sources() -> str:
    found = []
    for name in MODULES:
        try:
            found.append(inspect.getsource(importlib.import_module(name)))
        except (ImportError, OSError):
            continue
    return "\n\n".join(found)
