"""Nothing secret is shown, and what is not secret stays readable."""

from __future__ import annotations

import json
import pickle

import orjson
import pytest

from harness.endpoint.secret import Secret, redact, redact_argv, redact_command
from harness.endpoint.target import Target, parse_header
from harness.endpoint.url import normalise_base_url

KEY = "sk-abcdef123456"


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret(KEY)
    assert KEY not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == KEY
    for dump in (json.dumps, orjson.dumps, pickle.dumps):
        with pytest.raises(TypeError):
            dump(secret)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--api-key", KEY, "x"], ("--api-key", "***", "x")),
        ([f"--api-key={KEY}"], ("--api-key=***",)),
        ([f"--api_key={KEY}"], ("--api_key=***",)),
        (["--admin-api-key", KEY], ("--admin-api-key", "***")),
        (["--hf-token", KEY], ("--hf-token", "***")),
        (["--header", f"Authorization: Bearer {KEY}"], ("--header", "Authorization: ***")),
        ([f"--header=X-Api-Key: {KEY}"], ("--header=X-Api-Key: ***",)),
        (["-H", "X-Trace: on"], ("-H", "X-Trace: on")),
        ([f"HF_TOKEN={KEY}"], ("HF_TOKEN=***",)),
        (["--base-url", f"http://me:{KEY}@host/v1"], ("--base-url", "http://***@host/v1")),
        (["--max-tokens", "12", "--tokenizer", "path"], ("--max-tokens", "12", "--tokenizer", "path")),
        (["--max-tokens-total", "9", "--num-prompts=3"], ("--max-tokens-total", "9", "--num-prompts=3")),
        (["--api-key", "--stream"], ("--api-key", "--stream")),
    ],
)
def test_command_lines_are_redacted(argv: list[str], expected: tuple[str, ...]) -> None:
    assert redact_argv(argv) == expected


def test_a_reported_launch_command_is_redacted() -> None:
    command = f"python -m sglang --model 'my model' --api-key {KEY} --port 1"
    assert redact_command(command) == "python -m sglang --model 'my model' --api-key *** --port 1"
    assert KEY not in redact_command(f"broken ' --api-key {KEY}")


def test_messages_lose_secrets_and_userinfo() -> None:
    assert redact(f"key {KEY} at https://a:b@host/x", [Secret(KEY), Secret("")]) == "key *** at https://***@host/x"


def test_every_header_of_the_target_is_a_secret() -> None:
    target = Target(
        base=normalise_base_url("http://user:pass-word@h"),
        model="m",
        api_key=Secret(KEY),
        headers=dict([parse_header("X-Auth: Token abcdefgh-1"), parse_header("X-Flag: 1")]),
    )
    secrets = {secret.reveal() for secret in target.secrets()}
    assert {KEY, f"Bearer {KEY}", "Token abcdefgh-1", "abcdefgh-1", "user:pass-word", "pass-word"} <= secrets
    assert "1" not in secrets
    assert KEY not in repr(target)
    assert "pass-word" not in repr(target)


def test_a_given_authorization_header_wins_over_the_key() -> None:
    target = Target(
        base=normalise_base_url("http://h"),
        model="m",
        api_key=Secret(KEY),
        headers=dict([parse_header("authorization: Basic Zm9vOmJhcg==")]),
    )
    assert target.request_headers() == {"authorization": "Basic Zm9vOmJhcg=="}


@pytest.mark.parametrize("text", ["no colon", ": v", "A: b\r\nC: d"])
def test_a_bad_header_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="header"):
        parse_header(text)
