"""Where profiles come from: files, and those that are shipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import click

from harness.gate.profile import Profile
from harness.gate.reading import ProfileError, read_profile
from harness.store import RunFolder, StoreError

SHIPPED = ("smoke", "prelaunch", "nightly", "gateway")
DEFAULT_PROFILE = "prelaunch"
KEPT = "profile.toml"


def load_profile(name: str) -> tuple[str, Profile]:
    """Text and content of a profile; UsageError if it cannot be read, with the line that is wrong."""
    if name in SHIPPED and not Path(name).is_file():
        text, source = shipped_text(name), f"{name}.toml"
    else:
        text, source = _read(name), Path(name).name
    return text, parse_profile(text, source)


def parse_profile(text: str, source: str) -> Profile:
    """The profile in `text`; UsageError names the line that is wrong."""
    try:
        return read_profile(text, source)
    except ProfileError as error:
        raise click.UsageError(str(error)) from None


def kept_profile(run: RunFolder) -> Profile:
    """The profile that a run was started with, and what was typed in its place; StoreError if it is gone."""
    try:
        text = (run.path / KEPT).read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{run.path}/{KEPT}: {error.strerror}") from None
    profile = parse_profile(text, f"{run.path.name}/{KEPT}")
    typed = run.info.options.get("typed")
    if not isinstance(typed, Mapping):
        return profile
    required = typed.get("require")
    more = tuple(str(each) for each in required) if isinstance(required, list | tuple) else ()
    own = {name: value for name, value in typed.items() if name != "require"}
    return replace(profile, **{**own, "require": more})  # type: ignore[arg-type]


def shipped_text(name: str) -> str:
    """A shipped profile, comments included."""
    return files("harness.gate").joinpath("profiles", f"{name}.toml").read_text(encoding="utf-8")


def _read(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no UTF-8 text"
        raise click.UsageError(
            f"--profile {name}: {why}; there are {', '.join(SHIPPED)}, or write your own with --init"
        ) from None
