"""A recording that crashes its judge, hangs it or takes all memory costs its own result, and no other."""

import sys
from pathlib import Path
from typing import Final

import pytest

from tests import house
from tests.cli.conftest import Mcpproxy
from tests.fleet import corpus
from tests.fleet.test_check_out import records

CHECKS: Final = """
import os
from mcpproxy.custom_rules import Check, RuleFamily, Violation


def lists_tools(context, history):
    if context.message.params.get("evil"):
        with open({log!r}, "a") as log:
            print("asked", file=log)
        {deed}
    yield Violation("HOUSE-001", "H-001", "client listed tools", pointer="/method")


def names_itself(context, history):
    yield from ()


FAMILY = RuleFamily(
    checks=(
        Check(("HOUSE-001",), lists_tools, ("request",), ("tools/list",)),
        Check(("HOUSE-002",), names_itself, ("response",)),
    )
)
"""

EVIL: Final = corpus.ended(
    corpus.header("weather", corpus.FIRST),
    *corpus.handshake("editor", "weather"),
    corpus.frame(4, "client", corpus.message(4, "tools/list", {"evil": True}), ms=40),
)

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")


@pytest.mark.parametrize(
    ("deed", "patience_s", "said"),
    [
        pytest.param("os.abort()", 300, "its judge was ended by SIGABRT", marks=posix),
        ("os._exit(3)", 300, "its judge failed with exit code 3"),
        ("import time; time.sleep(600)", 3, "its judge was not done after 3 s"),
        pytest.param("os.kill(os.getpid(), 11)", 300, "its judge was ended by SIGSEGV", marks=posix),
        pytest.param(
            "bytearray(1 << 40)", 300, "its judge needed more than 1,024 MiB of memory", marks=posix
        ),
        (
            "raise ValueError('no')",
            300,
            "the check failed: ValueError: no; a check must take whatever a peer sends",
        ),
    ],
)
def test_a_recording_that_kills_its_judge_is_tried_twice_and_skipped(
    mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path, deed: str, patience_s: int, said: str
) -> None:
    corpus.write(fleet, {"week-1/evil.jsonl": EVIL})
    log = tmp_path / "log"
    rules = house.build(tmp_path, CHECKS.format(log=str(log), deed=deed))
    options = ("--rules", rules, "--timeout", str(patience_s), "--memory", "1024", "--workers", "1")
    judged = mcpproxy("check", str(fleet), "--out", str(tmp_path / "out"), *options)
    assert judged.code == 2
    (line,) = judged.err.splitlines()
    assert line.startswith("mcpproxy: week-1/evil.jsonl: ")
    assert f"{said}, 2 times; it was skipped" in line
    assert log.read_text().splitlines() == ["asked"] * 2
    assert "1 trace could not be judged." in judged.out
    assert records(tmp_path / "out").keys() == corpus.RECORDINGS.keys()


@posix
def test_a_message_that_takes_all_memory_is_skipped(mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path) -> None:
    lists = "[" + ",".join(["[]"] * 1_000_000) + "]"  # 3 MB of JSON become lists of 65 MB
    evil = corpus.frame(
        4, "client", f'{{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{{"a":{lists}}}}}'
    )
    corpus.write(fleet, {"week-1/evil.jsonl": (*EVIL[:4], evil, EVIL[-1])})
    judged = mcpproxy("check", str(fleet), "--out", str(tmp_path / "out"), "--memory", "100")
    assert judged.code == 2
    assert judged.err.startswith("mcpproxy: week-1/evil.jsonl: its judge ")
    assert records(tmp_path / "out").keys() == corpus.RECORDINGS.keys()
    assert mcpproxy("check", str(fleet), "--out", str(tmp_path / "out")).code == 0
    assert "week-1/evil.jsonl" in records(tmp_path / "out")


@posix
def test_a_judge_that_is_killed_once_changes_nothing(mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path) -> None:
    corpus.write(fleet, {"week-1/evil.jsonl": EVIL})
    done = tmp_path / "done"
    once = f"os.path.exists({str(done)!r}) or (open({str(done)!r}, 'w').close(), os.kill(os.getpid(), 9))"
    rules = house.build(tmp_path, CHECKS.format(log=str(tmp_path / "log"), deed=once))
    killed = mcpproxy("check", str(fleet), "--out", str(tmp_path / "killed"), "--rules", rules)
    calm = mcpproxy("check", str(fleet), "--out", str(tmp_path / "calm"), "--rules", rules)
    assert (killed.code, killed.err, calm.code, calm.err) == (0, "", 0, "")
    assert corpus.tree(tmp_path / "killed") == corpus.tree(tmp_path / "calm")
    assert (tmp_path / "log").read_text().splitlines() == ["asked"] * 3
