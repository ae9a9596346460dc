"""``mcpproxy auth``: the steps of a login as text and JSON, and the exit code."""

import json
from pathlib import Path

from tests.cli.conftest import Mcpproxy
from tests.view.logins import ISSUER, REFUSALS, Conversation


def test_the_command_names_the_step_and_exits_with_1(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    said = Conversation(tmp_path / "files.jsonl")
    REFUSALS["token"](said.challenge().metadata()).login()
    ran = mcpproxy("auth", str(said.path))
    assert ran.code == 1
    assert "  6 ✗ token" in ran.out
    assert "      why       invalid_grant: PKCE verification failed" in ran.out
    assert "https://www.rfc-editor.org/rfc/rfc6749#section-5.2" in ran.out
    assert ran.out.replace("\n", " ").rstrip().endswith("does not fit redirect_uri or code_verifier).")
    told = json.loads(mcpproxy("auth", "--json", str(said.path)).out)
    assert (told["failed"], told["revision"]) == (6, "2025-11-25")
    assert [step["outcome"] for step in told["steps"]] == [*["ok"] * 5, "failed"]
    assert told["steps"][5]["asked"].startswith(
        f"POST {ISSUER}/t; grant_type authorization_code, client_id k"
    )


def test_what_a_browser_has_recorded(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    said, archive = Conversation(tmp_path / "files.jsonl"), str(tmp_path / "files.har")
    REFUSALS["request with the token"](said.challenge().metadata()).login()
    assert mcpproxy("export", "har", str(said.path), "-o", archive).code == 0
    recorded = json.loads(mcpproxy("auth", "--json", str(said.path)).out)
    imported = json.loads(mcpproxy("auth", "--json", archive).out)
    assert imported["failed"] == recorded["failed"] == 7
    assert [step["asked"] for step in imported["steps"]] == [step["asked"] for step in recorded["steps"]]


def test_a_recording_without_a_login(mcpproxy: Mcpproxy) -> None:
    recording = Path(__file__).parents[2] / "recordings" / "everything-http-2025-06-18.jsonl"
    ran = mcpproxy("auth", str(recording))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("No login: no refusal for want of a token")
