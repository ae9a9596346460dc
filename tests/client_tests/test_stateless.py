"""Servers without a handshake, and servers that a client asks whether they are one."""

import json
import sys
from pathlib import Path

import pytest

from mcpproxy.peers.client_tests.rows.listed import LISTED
from mcpproxy.peers.client_tests.rows.stateless import STATELESS_LAWFUL, STATELESS_WRONG
from tests.client_tests.test_over_http import names_of
from tests.client_tests.test_validate_client import HERE, LIMIT, Outcome, minimal, statuses

CLIENT = str(HERE / "modern_client.py")
HTTP = ("--listen=127.0.0.1:0",)


class Played(Outcome):
    """The checks of a client of both eras."""

    def __init__(
        self, capsys: pytest.CaptureFixture[str], folder: Path, flaw: str, only: str, *options: str
    ) -> None:
        options = ("--json", *options, f"--only={only}", f"--timeout={LIMIT}", "--")
        super().__init__(capsys, folder, *options, sys.executable, CLIENT, flaw)
        checks = json.loads(self.out)["checks"]
        self.told = {check["name"]: check["message"] for check in checks}
        self.broken = {check["name"]: check["broken"] for check in checks if check["broken"]}


@pytest.mark.parametrize("options", [(), HTTP], ids=["stdio", "http"])
def test_a_lawful_client_of_both_eras_passes_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: tuple[str, ...]
) -> None:
    over = "http" if options else "stdio"
    rows = [one for one in (*LISTED, *STATELESS_LAWFUL, *STATELESS_WRONG) if over in one.transports]
    played = Played(capsys, tmp_path, "none", ",".join(one.name for one in rows), *options)
    assert statuses(played) == dict.fromkeys(["ordinary", *names_of(tuple(rows))], "passed")
    assert played.told["probes (behaviour)"] == "asks with server/discover first"
    assert played.told["input-required (behaviour)"] == "calls again with the input"
    assert played.told["state-only (behaviour)"] == "calls again with the state"
    assert played.told["probe-unanswered (behaviour)"].startswith("sends initialize after ")


def test_a_client_of_sessions_need_not_know_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = names_of(LISTED)
    only = f"--only=stateless,{','.join(names)}"
    outcome = Outcome(capsys, tmp_path, "--json", only, f"--timeout={LIMIT}", "--", *minimal("none"))
    assert outcome.code == 0
    assert {name for name, status in statuses(outcome).items() if status == "passed"} >= {"both-eras", *names}


def test_a_client_of_sessions_may_give_up_where_there_are_none() -> None:
    rows = (*STATELESS_LAWFUL, *STATELESS_WRONG)
    assert [one.name for one in rows if "stateful" not in one.eras and one.reaction == "goes on"] == []


@pytest.mark.parametrize("options", [(), HTTP], ids=["stdio", "http"])
def test_a_client_that_knows_no_session_is_judged_by_the_servers_without(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: tuple[str, ...]
) -> None:
    only = "both-eras,each-content,two-pages,probe-of-params,state-only"
    played = Played(capsys, tmp_path, "knows-no-session", only, *options)
    assert played.code == 0
    judged = dict.fromkeys(("ordinary", "both-eras", "each-content", "state-only"), "passed")
    assert statuses(played) == judged | {"two-pages": "skipped", "probe-of-params": "skipped"}
    assert played.told["sessions (behaviour)"] == "sends no initialize to a server that has sessions"
    assert played.told["revision-offered (behaviour)"].startswith("offers 2026-07-28; ")


FLAWS = [
    ("falls-back", "both-eras", "ERA-002", ()),
    ("no-capabilities", "both-eras", "STAT-001", ()),
    ("own-state", "state-only", "MRTR-006", ()),
    ("no-name-header", "both-eras", "HDR-004", HTTP),
    ("no-argument-header", "header-argument", "HDR-005", HTTP),
    ("takes-wrong-tool", "wrong-header-argument", "HDR-009", HTTP),
]


@pytest.mark.parametrize(("flaw", "scenario", "rule", "options"), FLAWS)
def test_a_planted_fault_is_found_with_its_sentence(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    flaw: str,
    scenario: str,
    rule: str,
    options: tuple[str, ...],
) -> None:
    played = Played(capsys, tmp_path, flaw, scenario, *options)
    assert played.broken == {scenario: rule}


def test_a_client_that_knows_only_one_code_is_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    played = Played(capsys, tmp_path, "dies-of-code", "probe-of-params")
    assert "with the ordinary server with 0: invalid params" in played.told["probe-of-params"]
