"""Proofs of possession (DPoP) are secrets: no copy and no face of a recording shows one."""

import json
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import pytest

from mcpproxy.cli.main import main
from tests.ui.test_page_file import unpacked
from tests.view.logins import CALLBACK, ISSUER, OPENING, OWN, Conversation, Said

TOKEN: Final = "hush0Q7x9vK2token"
PROOF: Final = "eyJ0eXAiOiJkcG9wK2p3dCJ9.eyJqdGkiOiJodXNoMFE3eDl2SzIifQ.c2lnbmF0dXJlMFE3eDl2SzI"
OPAQUE: Final = "hush1Q7x9vK2proof"
THUMBPRINT: Final = "hush2Q7x9vK2thumb"
SECRETS: Final = (TOKEN, PROOF, OPAQUE, THUMBPRINT)
MARKER: Final = "n-0S6-WzA2Mj"
"""The nonce of the server, which is no secret."""

COPIES: Final = {
    "har": ("export", "har", "{trace}", "-o", "{out}"),
    "pcapng": ("export", "pcapng", "{trace}", "-o", "{out}"),
    "html": ("export", "html", "{trace}", "-o", "{out}"),
    "otlp": ("export", "otlp", "{trace}", "-o", "{out}"),
    "redact": ("redact", "--preset", "secrets", "{trace}", "-o", "{out}"),
    "auth": ("auth", "{trace}"),
}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A recording with its credentials kept: a proof in heads, and keys in queries, forms, JSON and texts."""
    said = Conversation(tmp_path / "kept.jsonl")
    proof = {"DPoP": PROOF}
    said.ask("POST", f"{ISSUER}/par", (201, {}, {"dpop_jkt": THUMBPRINT}), body=f"dpop_jkt={THUMBPRINT}")
    asked = {"response_type": "code", "client_id": "k", "redirect_uri": CALLBACK, "code_challenge": "c"}
    said.ask("GET", f"{ISSUER}/a?{urlencode({**asked, 'dpop_jkt': THUMBPRINT})}", (302, {}, None))
    said.ask(
        "POST",
        f"{ISSUER}/t",
        (200, {"DPoP-Nonce": MARKER}, {"access_token": TOKEN, "token_type": "DPoP"}),
        body=urlencode({"grant_type": "authorization_code", "client_id": "k"}),
        fields=proof,
    )
    opened = {"Authorization": f"DPoP {TOKEN}", "DPoP": OPAQUE}
    text = f"sent Authorization: DPoP {TOKEN} and DPoP: {OPAQUE}, then DPoP {TOKEN}"
    result = {"jsonrpc": "2.0", "id": 1, "result": {"note": text, "dpop_jkt": THUMBPRINT, "marker": MARKER}}
    answer = (200, {"DPoP-Nonce": MARKER, "Content-Type": "application/json"}, result)
    said.ask("POST", f"{OWN}/mcp", answer, body=OPENING, fields=opened, endpoint=True)
    said.login()
    return said.path


@pytest.mark.parametrize("copy", COPIES)
def test_no_copy_shows_a_proof(trace: Path, copy: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = trace.parent / "copy"
    assert main([word.format(trace=trace, out=out) for word in COPIES[copy]]) in (0, 1)
    told = (unpacked(out) if copy == "html" else out.read_bytes().decode("latin-1")) if out.exists() else ""
    told += capsys.readouterr().out
    assert ("initialize" if copy == "otlp" else "nonce") in told.lower()
    assert [secret for secret in SECRETS if secret in told] == []


def test_a_login_names_proofs_and_nonces(tmp_path: Path) -> None:
    proof = {"DPoP": PROOF}
    wanted = {"error": "use_dpop_nonce"}
    said = Conversation(tmp_path / "files.jsonl").challenge().metadata().registers().asks_the_user()
    token = {"access_token": TOKEN, "token_type": "DPoP"}
    answers: tuple[Said, ...] = (400, {"DPoP-Nonce": MARKER}, wanted), (200, {}, token)
    for answer in answers:
        said.ask("POST", f"{ISSUER}/t", answer, body="grant_type=authorization_code", fields=proof)
    opened = {"Authorization": f"DPoP {TOKEN}", **proof}
    login = said.ask(
        "POST", f"{OWN}/mcp", (200, {}, None), body=OPENING, fields=opened, endpoint=True
    ).login()
    refused, given, used = login.steps[-3:]
    assert refused.fault == "use_dpop_nonce: the proof needs the nonce of this answer"
    assert refused.answered.endswith("; a nonce for the next DPoP proof")
    assert "DPoP" in given.answered
    assert given.asked.endswith(", with a DPoP proof")
    assert used.asked.endswith("with a dpop token, with a DPoP proof")
    assert login.failed is None
    assert not any(secret in json.dumps(repr(login)) for secret in SECRETS)
