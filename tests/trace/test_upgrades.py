"""Upgrades: records of old formats are converted, newer formats are refused with a message."""

from pathlib import Path

import pytest

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import Frame
from mcpproxy.read.opening import open_trace
from mcpproxy.record.trace import upgrades

UPGRADE_STEPS: dict[int, upgrades.UpgradeStep] = {
    1: lambda line: line.replace(b"sender", b"author"),
    2: lambda line: line.replace(b'"author"', b'"from"'),
}


def test_the_current_format_needs_no_step() -> None:
    assert upgrades.upgrade_steps(upgrades.FORMAT) == ()


def test_a_record_is_upgraded_step_by_step() -> None:
    assert (
        upgrades.upgrade_line(b'{"sender":1}', upgrades.upgrade_steps(1, to=3, known_steps=UPGRADE_STEPS))
        == b'{"from":1}'
    )
    assert (
        upgrades.upgrade_line(b'{"author":1}', upgrades.upgrade_steps(2, to=3, known_steps=UPGRADE_STEPS))
        == b'{"from":1}'
    )


@pytest.mark.parametrize("version", [0, -1, 4])
def test_a_format_without_a_conversion_is_named(version: int) -> None:
    with pytest.raises(LookupError, match=f"written by format {version}, this mcpproxy reads up to 3"):
        upgrades.upgrade_steps(version, to=3, known_steps=UPGRADE_STEPS)


def test_an_old_trace_is_read_as_todays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrades, "FORMAT", 3)
    monkeypatch.setattr(upgrades, "UPGRADE_STEPS", UPGRADE_STEPS)
    path = tmp_path / "old.jsonl"
    path.write_bytes(
        b'{"type":"header","format":1}\n{"type":"frame","seq":1,"t":2,"sender":"client","message":[]}\n'
    )
    assert list(open_trace(path).events()) == [Frame(1, "client", b"[]", 2)]


def test_a_trace_from_the_future_asks_for_an_update(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    path.write_bytes(b'{"type":"header","format":4,"command":{"argv":[]}}\n')
    with pytest.raises(TraceError) as told:
        open_trace(path)
    assert str(told.value) == f"{path}:1: written by format 4, this mcpproxy reads up to 1; please update"
