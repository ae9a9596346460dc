"""A session that is judged by the user's choice of rules: live, and from the journal of a killed recorder."""

import contextlib
import io
import json
import os
import socket
import sys
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.judge.ruleset.rule_options import RuleOptions
from mcpproxy.judge.session.frame import Finding
from mcpproxy.record.recorder.checkpoint import read_checkpoint
from mcpproxy.record.recorder.recovery import recover
from mcpproxy.record.recorder.stderr_notes import StderrNotes
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.reader import read_trace
from tests import house
from tests.recorder import journals
from tests.recorder.journals import EXIT, Entry, JournalFolder, client, recording, server

OPENED: Final = [
    client(
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        b'"capabilities":{},"clientInfo":{"name":"c","version":"1.0.0"}}}\n'
    ),
    server(
        b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},'
        b'"serverInfo":{"name":"s","version":"1.0.0","colour":"red"}}}\n'
    ),
    client(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'),
]


def listing(id: int) -> list[Entry]:
    return [
        client(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n' % id),
        server(b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[]}}\n' % id),
    ]


def start(terms: RuleOptions) -> Entry:
    """The START record of a session that is to be judged by ``terms``."""
    kind, payload, at_ns, connection = journals.start()
    return kind, json.dumps(json.loads(payload) | {"judged_by": terms.to_json()}).encode(), at_ns, connection


def found(trace: Path) -> list[tuple[str, int]]:
    """The findings in a trace: rule and frame."""
    return [(f.rule, f.frame) for f in read_trace(str(trace)).events() if isinstance(f, Finding)]


def judge_error(trace: Path) -> str:
    opened = read_trace(str(trace))
    for _ in opened.events():
        pass
    assert opened.tally is not None
    return opened.tally.judge_error or ""


def record(trace: Path, terms: RuleOptions, entries: list[Entry]) -> None:
    """Record a session from its start to its end; what is to be said goes to stderr."""
    JournalFolder(trace, [start(terms), *entries, EXIT])
    live = StderrNotes(2, "off")
    session, writer = recording(trace, live=live)
    session.drain()
    assert session.finish()
    writer.close()
    live.flush()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "mcpproxy"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


CHOICES: Final[dict[str, tuple[RuleOptions, list[str]]]] = {
    "by rules that are off by default": (RuleOptions(extend=("EXT",)), ["EXT-001"]),
    "by these only, by name": (RuleOptions(select=("proprietary-member",)), ["EXT-001"]),
    "without these": (RuleOptions(extend=("EXT",), ignore=("EXT-001",)), []),
}


@pytest.mark.parametrize(("terms", "codes"), CHOICES.values(), ids=CHOICES)
def test_a_session_is_judged_as_was_chosen(trace: Path, terms: RuleOptions, codes: list[str]) -> None:
    record(trace, terms, OPENED)
    assert [code for code, _ in found(trace)] == codes


def test_a_rule_of_ones_own_judges_beside_the_others(trace: Path, tmp_path: Path) -> None:
    terms = RuleOptions((house.build(tmp_path),), extend=("EXT",))
    record(trace, terms, [*OPENED, *listing(2)])
    assert found(trace) == [("HOUSE-002", 2), ("EXT-001", 2), ("HOUSE-001", 4)]


SLIPS: Final[dict[str, tuple[str, str]]] = {
    "it raises": ('print("asked")', "    raise KeyError(context.at)"),
    "it leaves": ('print("asked")', "    raise SystemExit"),
    "it reports no text": ('"client listed tools"', 'b"client listed tools"'),
    "it blames nobody we know": ('"/method")', '"/method", blame="moon")'),
    "its memory fails": (
        "FAMILY = RuleFamily(",
        "FAMILY = RuleFamily("
        "updates=(StateUpdate(lambda context, history: 1 / 0, ('request',), ('tools/list',)),),",
    ),
}


@pytest.mark.parametrize(("right", "wrong"), SLIPS.values(), ids=SLIPS)
def test_a_rule_that_fails_is_left_out_and_judging_goes_on(
    trace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], right: str, wrong: str
) -> None:
    checks = house.CHECKS.replace(right, wrong.strip())
    assert checks != house.CHECKS
    broken = server(b'{"jsonrpc":"2.0","id":9,"result":{}}\n')
    record(trace, RuleOptions((house.build(tmp_path, checks),)), [*OPENED, *listing(2), *listing(3), broken])
    codes = [code for code, _ in found(trace)]
    assert codes[0] == "HOUSE-002"
    assert codes[-1] == "PROTO-007"
    assert codes.count("HOUSE-001") == ("updates" in wrong)  # updates run after all checks
    assert "HOUSE-001" in judge_error(trace)
    assert f"left out from frame 4 on: {tmp_path}/house/house.py:" in judge_error(trace)
    said = [line for line in capfd.readouterr().err.splitlines() if "judging" in line]
    assert len(said) == 1
    assert said[0].startswith("mcpproxy: judging goes on; HOUSE-001")


def test_a_rule_that_prints_does_not_fail_when_nobody_reads(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay has exited before the recorder is done."""
    reader, writer = os.pipe()
    os.close(reader)
    with contextlib.suppress(BrokenPipeError), open(writer, "w", buffering=1) as unread:
        monkeypatch.setattr(sys, "stderr", unread)
        record(trace, RuleOptions((house.build(tmp_path),)), [*OPENED, *listing(2)])
    assert ("HOUSE-001", 4) in found(trace)
    assert judge_error(trace) == ""


def test_what_a_rule_prints_is_written_in_whole_lines(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server writes to the same stderr. A line of its own must not begin within one of a rule."""
    ours, others = socket.socketpair(type=socket.SOCK_DGRAM)  # keeps writes apart
    checks = house.CHECKS.replace('print("asked")', 'print("asked", "twice\\nand more", end="")')
    with ours, others, io.TextIOWrapper(ours.makefile("wb", buffering=0), write_through=True) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        record(trace, RuleOptions((house.build(tmp_path, checks),)), [*OPENED, *listing(2)])
        others.setblocking(False)
        written: list[bytes] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                written.append(others.recv(1 << 16))
    assert written == [b"imported\n", b"asked twice\n", b"and more"]


def test_values_that_are_not_checked_are_no_rule_that_is_left_out(
    trace: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "values are not checked against schemas: jsonschema_rs cannot be loaded (DLL load failed)"
    monkeypatch.setattr("mcpproxy.judge.observer.UNCHECKED", [why])
    record(trace, RuleOptions(), [*OPENED, *listing(2)])
    assert judge_error(trace) == why
    said = [line for line in capfd.readouterr().err.splitlines() if "judging" in line]
    assert said == [f"mcpproxy: judging goes on; {why}"]


def test_a_journal_is_judged_by_the_rules_of_its_session(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = RuleOptions((house.build(tmp_path),), extend=("EXT",)).sealed()
    entries = [start(terms), *OPENED, *listing(2), EXIT]
    JournalFolder(trace, entries)
    assert recover(str(trace))
    assert capsys.readouterr() == (
        "",
        "imported\nasked\n",
    )  # stdout is for the results of the command that recovers
    record(tmp_path / "live.jsonl", terms, [*OPENED, *listing(2)])
    assert ("HOUSE-001", 4) in found(trace)
    assert trace.read_bytes() == (tmp_path / "live.jsonl").read_bytes()


def test_a_journal_with_a_checkpoint_is_judged_by_the_rules_of_its_session(
    trace: Path, tmp_path: Path
) -> None:
    terms = RuleOptions((house.build(tmp_path),), extend=("EXT",)).sealed()
    folder = JournalFolder(trace, [start(terms), *OPENED], listing(2))
    session, writer = recording(trace)
    session.drain()  # the recorder is killed after this
    writer.close()
    checkpoint = read_checkpoint(journal.folder(str(trace)))
    assert checkpoint is not None
    assert checkpoint.rule_options == terms
    assert "000001" not in "".join(folder.names())
    folder.append(2, journals.packed(*listing(3), EXIT))
    assert recover(str(trace))
    assert found(trace) == [("HOUSE-002", 2), ("EXT-001", 2), ("HOUSE-001", 4), ("HOUSE-001", 6)]
    assert judge_error(trace) == ""


def gone(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def changed(folder: Path) -> None:
    (folder / "house.py").write_text(house.CHECKS + "\n# and more")


def of_somebody_else(folder: Path) -> None:
    key = folder.parent / "state" / "mcpproxy" / "journal.key"
    key.write_bytes(bytes(32))


UNFIT: Final = {"are gone": gone, "have changed since": changed, "from elsewhere": of_somebody_else}


@pytest.mark.parametrize("reason", UNFIT)
def test_code_that_is_not_what_was_named_is_not_run(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    terms = RuleOptions((house.build(tmp_path),)).sealed()
    UNFIT[reason](tmp_path / "house")
    JournalFolder(trace, [start(terms), *OPENED, EXIT])
    assert recover(str(trace))
    assert found(trace) == []
    assert reason in judge_error(trace)
    assert str(tmp_path / "house") in judge_error(trace)
    assert capsys.readouterr() == ("", "")


def test_without_a_key_there_is_no_seal_and_the_code_is_not_run_later(
    trace: Path, tmp_path: Path, state: Path
) -> None:
    state.parent.write_text("a file where the folder should be")
    terms = RuleOptions((house.build(tmp_path),)).sealed()
    assert terms.seal == ""
    JournalFolder(trace, [start(terms), *OPENED, EXIT])
    assert recover(str(trace))
    assert "from elsewhere" in judge_error(trace)


def test_what_runs_no_code_needs_no_seal(trace: Path) -> None:
    JournalFolder(trace, [start(RuleOptions(extend=("EXT",)).sealed()), *OPENED, EXIT])
    assert recover(str(trace))
    assert found(trace) == [("EXT-001", 2)]
    assert judge_error(trace) == ""


def test_the_key_is_made_once_and_for_this_user_alone(tmp_path: Path, state: Path) -> None:
    folder = house.build(tmp_path)
    assert RuleOptions((folder,)).sealed().seal == RuleOptions((folder,)).sealed().seal
    assert RuleOptions((folder,)).sealed().seal != RuleOptions((folder,), ignore=("EXT",)).sealed().seal
    assert [path.name for path in state.iterdir()] == ["journal.key"]
    assert (state / "journal.key").stat().st_mode & 0o777 == 0o600


def test_hosts_are_kept_in_the_journal_and_others_have_no_member_for_them() -> None:
    """A recovery judges by the same hosts. Without hosts the seals of journals stay what they were."""
    terms = RuleOptions(hosts=("seen", "codex@0.171.0"), hosts_grade="thread")
    assert RuleOptions.from_json(terms.to_json()) == terms
    assert RuleOptions().to_json().keys() == {"folders", "select", "extend", "ignore", "digest", "seal"}
