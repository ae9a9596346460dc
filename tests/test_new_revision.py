"""The day a revision is published, its name is appended to ``REVISIONS``. Nothing found before may change by
that, and until its changes are written into the tables it is judged as the revision before it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.protocol.revisions import REVISIONS
from tests.every_finding import Findings, every_finding

NEWEST: Final = REVISIONS[-1]
NEXT: Final = f"{int(NEWEST[:4]) + 1}-06-30"

OPEN: Final = {"DISC-002", "PROTO-008", "STAT-001", "STAT-002"}
"""Rules about requests that name no version, or one that nobody has published. Such a request may be of any
stateless revision, so a finding about it names none as soon as there are two."""


COUNTED: Final = re.compile(
    r"REVISIONS\[(\d*:\d+|\d+:|[1-9])|STATELESS\[\d|STATELESS as"
    r"""|[=!]= \(?["']2026-07-28"""
)
"""Revisions told by their place or by equality, where an era or a range is meant. ``[-1]`` is the newest."""


@pytest.fixture(scope="module")
def before() -> Findings:
    """In this process, which has judged the fixtures if it has tested the rules."""
    found: Findings = json.loads(json.dumps(every_finding(None)["published"]))
    return found


@pytest.fixture(scope="module")
def after() -> dict[str, Any]:
    """What ``tests.every_finding`` prints: a revision is appended in a process of its own."""
    command = [sys.executable, "-m", "tests.every_finding", NEXT]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def compared(found: Findings, before: Findings) -> Findings:
    """``found``, said as it would have been before: a finding cites the newest page that may be meant."""
    text = json.dumps(found).replace(NEXT, NEWEST)
    said: Findings = json.loads(text)
    for name, findings in said.items():
        for one, was in zip(findings, before[name], strict=False):
            if one["rule"] in OPEN and one["revision"] is None:
                one["revision"] = was["revision"]
    return said


def test_what_was_found_before_is_found_still(before: Findings, after: dict[str, Any]) -> None:
    assert before.keys() == after["published"].keys()
    assert compared(after["published"], before) == before


def test_sessions_of_the_new_revision_are_judged_as_those_of_the_one_before(
    before: Findings, after: dict[str, Any]
) -> None:
    spoken = {name: before[name] for name in after["appended"]}
    assert len(spoken) > 800
    assert compared(after["appended"], before) == spoken


def test_every_fixture_of_the_newest_revision_holds_in_the_new_one(after: dict[str, Any]) -> None:
    assert after["surprises"] == []


def test_no_module_counts_revisions() -> None:
    package = Path(__file__).parent.parent / "mcpproxy"
    counted = [
        f"{file.relative_to(package)}: {found[0]}"
        for file in sorted(package.rglob("*.py"))
        if file.name != "revisions.py"
        for found in COUNTED.finditer(file.read_text("utf-8"))
    ]
    assert counted == []
