"""Secrets in the messages of a recording: what no copy, export or answer may show."""

import json
import re
from pathlib import Path
from typing import Final

from tests.attacks.stage import Stage, Table, hold
from tests.cli import recordings
from tests.cli.recordings import HANDSHAKE, MS, close, frame

TABLE: Final = Table()

SECRET: Final = "hush{}0Q7x9vK2"
"""The ``{}`` is the number of the form, so that what is left over can be named."""

IN_TEXTS: Final = (
    'api_key={}', "apiKey: '{}'", '"password": "{}"', '\\"client_secret\\": \\"{}\\"',
    'aws_secret_access_key = {}', 'npm //registry.npmjs.org/:_authToken={}', 'https://h/x?sig={}&a=1',
    'https://h/x?a=1&access_token={}', 'mysql --password {} -u me', 'tool --pw={}',
    "run --api-key '{}' now", 'the password is {}', 'password {}', '<password>{}</password>',
    '<add key="ApiKey" value="{}"/>', 'Authorization: token {}', 'authorization: Bearer {}',
    'curl -sSu me:{} https://h/', 'curl --user me:{} https://h/', 'postgres://me:{}@db/x',
    'Server=db;Password={};', '- name: API_KEY\n  value: {}\n',
    '[{{"name": "X-Api-Key", "value": "{}"}}, "in a sentence"]',
    'said: {{"key":"DB_PASSWORD","value":"{}"}}', 'X-Auth-Token: {}',
    'Set-Cookie: session_token={}; HttpOnly', "passphrase: '{}'", 'AccountKey={}==;', 'Cookie: a_token={}',
    'secret = "{}"',
)  # fmt: skip

IN_MEMBERS: Final = (
    "api_key", "apiKey", "password", "x-api-key", "passphrase", "private_key", "token", "set-cookie", "auth",
    "dbPassword", "clientSecret", "Authorization", "pw", "code_verifier", "signature", "refresh_token",
)  # fmt: skip

WHOLE: Final = (
    "Basic dXNlcjpwYXNzd29yZA", "sk-ant-" + "a1B2" * 8, "ghp_" + "a1B2" * 9, "AKIA" + "Q3RT" * 4,
    "SG." + "a1B2" * 6 + "." + "c3D4" * 10, "hf_" + "aBcD" * 9, "shpat_" + "0f1e" * 8,
    "OTP is 834512", "PIN: 9317",
)  # fmt: skip
"""Secrets by their own form; the last word is the secret."""

NUMBERS: Final = {"pin": 7319, "otp": "482915"}
"""Members that are secrets if their values are digits."""

MARKER: Final = "not-a-secret"


def _secrets() -> list[str]:
    count = len(IN_TEXTS) + len(IN_MEMBERS) + 3
    return [SECRET.format(number) for number in range(count)] + [
        *(text.split(" ")[-1] for text in WHOLE),
        *(str(value) for value in NUMBERS.values()),
    ]


def _recording(path: Path) -> None:
    """Each form as an argument, in a result, in JSON within a text of a result, and on stderr."""
    made = iter(_secrets())
    texts = [text.format(next(made)) for text in IN_TEXTS]
    members: dict[str, object] = {name: next(made) for name in IN_MEMBERS}
    nested = {
        "env": [{"name": "API_KEY", "value": next(made)}, {"value": next(made), "Name": "X-Api-Key"}],
        "tokens": [f"{next(made)}longer"],
    }
    asked = {"note": MARKER, "texts": [*texts, *WHOLE], **members, **NUMBERS, **nested}
    told = [
        *({"type": "text", "text": text} for text in (*texts, *WHOLE)),
        {"type": "text", "text": json.dumps(asked)},
        {"type": "text", "text": json.dumps({"result": json.dumps(asked)}, indent=2)},
    ]
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "t", "arguments": asked}}
    answer = {"jsonrpc": "2.0", "id": 2, "result": {"content": told, "structuredContent": asked}}
    failed = {
        "jsonrpc": "2.0",
        "id": 3,
        "error": {"code": -32000, "message": f"{MARKER} {json.dumps(asked)}"},
    }
    again: dict[str, object] = {
        "jsonrpc": "2.0",
        "id": 3,
        "method": "tools/call",
        "params": {"name": "t", "arguments": {}},
    }
    lines = [text.replace("\n", " ") for text in (*texts, *WHOLE)]
    recordings.write(
        path,
        (
            *HANDSHAKE,
            frame(4, "client", json.dumps(call)),
            *(json.dumps({"type": "stderr", "t": 4 * MS, "text": line}) for line in (MARKER, *lines)),
            frame(5, "server", json.dumps(answer)),
            frame(6, "client", json.dumps(again)),
            frame(7, "server", json.dumps(failed)),
            close(4, 3),
        ),
    )


def _held(shown: bytes, where: str) -> None:
    hold(MARKER.encode() in shown, f"{where} does not show the messages at all")
    # The digits of a PIN may stand in the hash of another secret, by chance.
    shown = re.sub(rb"hash=[0-9a-f]{12}\b", b"hash=", shown)
    left = [secret for secret in _secrets() if secret.encode() in shown]
    hold(not left, f"{where} shows {len(left)}: {', '.join(left)}")


@TABLE
def secrets_in_exports(stage: Stage) -> str:
    """No copy or export shows what looks like a secret, in arguments, results, JSON in texts or on stderr."""
    _recording(stage.folder / "a.jsonl")
    made = {
        "redact": ("redact", "a.jsonl", "--preset", "secrets", "-o", "redact"),
        "otlp": ("export", "otlp", "a.jsonl", "--content", "-o", "otlp"),
        "pcapng": ("export", "pcapng", "a.jsonl", "-o", "pcapng"),
    }
    for name, arguments in made.items():
        done = stage.run(*arguments, doing=name)
        hold(done.code == 0, f"{name}: {done.err[:200]}")
        _held((stage.folder / name).read_bytes(), name)
    return f"{len(_secrets())} forms, 3 exports"
