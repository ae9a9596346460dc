"""Secrets among the arguments of a command: which arguments are masked, and which stay."""

import re

import pytest

from mcpproxy.base.secret_values import PATTERNS, SecretPattern
from mcpproxy.judge.session.masked_values import ANY_MASK
from mcpproxy.record.recorder.secret_arguments import masked, shown

SECRET = "s3cr3t-value-1"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"

MASKED = {
    "an option and its value": (["--token", SECRET], ["--token", "*"]),
    "an option of several words": (["--api-key", SECRET, "/srv"], ["--api-key", "*", "/srv"]),
    "in camel case": (["--clientSecret", SECRET], ["--clientSecret", "*"]),
    "with one dash": (["-password", SECRET], ["-password", "*"]),
    "with an equals sign": ([f"--token={SECRET}"], ["--token=*"]),
    "a key": (["--key", SECRET], ["--key", "*"]),
    "a header": (["-H", f"Authorization: Bearer {SECRET}"], ["-H", "Authorization: Bearer *"]),
    "a header behind an equals sign": ([f"--header=X-Api-Key:{SECRET}"], ["--header=X-Api-Key:*"]),
    "a variable": ([f"API_KEY={SECRET}"], ["API_KEY=*"]),
    "a variable for a container": (
        ["run", "-e", f"GITHUB_TOKEN={SECRET}", "image"],
        ["run", "-e", "GITHUB_TOKEN=*", "image"],
    ),
    "a variable behind an option": ([f"--env=DB_PASSWORD={SECRET}"], ["--env=DB_PASSWORD=*"]),
    "a password in a URL": ([f"https://me:{SECRET}@example.com/x"], ["https://*@example.com/x"]),
    "a parameter of a URL": (
        [f"https://example.com/?api_key={SECRET}&b=1"],
        ["https://example.com/?api_key=*&b=1"],
    ),
    "a URL as a value": (
        [f"DATABASE_URL=postgres://u:{SECRET}@db/x"],
        ["DATABASE_URL=postgres://*@db/x"],
    ),
    "JSON": ([f'{{"clientSecret":"{SECRET}","a":1}}'], ['{"clientSecret":"*","a":1}']),
    "a script": (
        ["-c", f"server --token {SECRET} --api-key='{SECRET}' -v"],
        ["-c", "server --token * --api-key=* -v"],
    ),
    "a key of OpenAI": (["sk-proj-abcdefghijklmnopqrstuv"], ["*"]),
    "a key of GitHub": (["ghp_" + "a1" * 18], ["*"]),
    "a fine-grained key of GitHub": (["github_pat_" + "a1" * 18], ["*"]),
    "a key of GitLab": (["glpat-" + "a1" * 10], ["*"]),
    "a key of Slack": (["xoxb-1234567890-abcdef"], ["*"]),
    "a key of AWS": (["AKIAIOSFODNN7EXAMPLE"], ["*"]),
    "a key of Google": (["AIza" + "b" * 35], ["*"]),
    "a key of npm": (["npm_" + "c" * 36], ["*"]),
    "a JWT": ([JWT], ["*"]),
    "a key within a text": (["--config=a:ghp_" + "a1" * 18], ["--config=a:*"]),
}
KEPT = (
    ["npx", "-y", "@modelcontextprotocol/server-everything", "stdio"],
    ["python", "-m", "weather", "--max-tokens", "4096", "--author", "me"],
    ["node", "build/index.js", "--port=8080", "--no-auth", "C:\\srv", "/srv/monkey"],
    ["docker", "run", "-i", "--rm", "-e", "GITHUB_TOKEN", "-v", "/a:/b", "ghcr.io/x/y:1"],
    ["mcp-remote", "https://example.com/mcp?page=2", "--token-endpoint", "https://example.com/token"],
    ["sh", "-c", "cd /srv && exec server --verbose"],
    ["--token"],
    [""],
)


@pytest.mark.parametrize(("arguments", "expected"), MASKED.values(), ids=list(MASKED))
def test_what_is_masked(arguments: list[str], expected: list[str]) -> None:
    found = masked(["server", *arguments], b"key")
    assert [ANY_MASK.sub("*", each) for each in found] == ["server", *expected]
    assert SECRET not in shown(["server", *arguments])
    assert masked(found, b"key") == found


@pytest.mark.parametrize("command", KEPT, ids=[" ".join(each) for each in KEPT])
def test_what_is_kept(command: list[str]) -> None:
    assert masked(command, b"key") == (*command,)


def test_equal_secrets_have_equal_masks_under_one_key() -> None:
    one, other, alike = masked(["--token", "abc", "X_TOKEN=abd", "--secret=abc"], b"k")[1:]
    assert alike == f"--secret={one}"
    assert other != f"X_TOKEN={one}"
    assert masked(["--token", "abc"], b"l")[1] != one


WITH_SECRETS = (
    *("AKIA", "ASIA", "AROA", "AIDA", "ABIA", "ACCA"),
    *(f"gh{letter}_" + "a1" * 18 for letter in "pousr"),
    "hooks.slack.com/services/T0/B0/abcdefghijklmnop",
    "xapp-1-A0-12345",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    "Basic dXNlcjpwYXNz1",
    "BEARER abcdefg1",
    "sk_live_abcdefghijklmnop",
    "rk_test_abcdefghijklmnop",
    "pypi-" + "a" * 50,
    "redis://:hunter22@db",
    *(f"{name}={SECRET}" for name in ("api-key", "ACCESS_KEY", "secretkey", "private-key", "SECRET", "pwd")),
    *(f"{name}={SECRET}" for name in ("passwd", "password", "passphrase", "token", "my_Token")),
    # Letters that a pattern without regard to case takes for ASCII.
    *(f"{name}={SECRET}" for name in ("paſſword", "to\u212aen", "prıvate_key", "PRİVATE_KEY", "apı-key")),
    "BAſİC dXNlcjpwYXNz1",
    "basıc dXNlcjpwYXNz1",
)


@pytest.mark.parametrize("text", [f"{text}{'A' * 16}" if len(text) == 4 else text for text in WITH_SECRETS])
def test_every_secret_has_a_mark_of_its_pattern(text: str) -> None:
    found = [any(map(secret.counts, secret.pattern.finditer(text))) for secret in PATTERNS]
    assert any(found)
    assert [secret.sub(lambda _: "", text) != text for secret in PATTERNS] == found


@pytest.mark.parametrize(
    "secret", [each for each in PATTERNS if "?P<name>" in each.text], ids=lambda each: each.text[:40]
)
def test_a_text_is_searched_in_linear_time(secret: SecretPattern) -> None:
    """What follows a name of no secret is searched again, so each run that may follow has a limit."""
    without_classes = re.sub(r"\[(?:\\.|[^\]\\])+\]", "C", secret.text)
    plain = re.sub(r"\\.", "E", without_classes)
    assert re.findall(r"[*+](?!\+)|\{\d+,\}(?!\+)", re.sub(r"\}\+", "}", plain)) == []
