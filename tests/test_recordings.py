"""Each recording that ships gives exactly the findings that lie beside it.

They are sessions of real software, one in each protocol revision, and one of a faulty server.
"""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Finding, Frame
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.read.opening import open_trace

FOLDER = Path(__file__).parent.parent / "recordings"
RECORDINGS = sorted(FOLDER.glob("*.jsonl"))


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_is_judged_as_it_was(recording: Path) -> None:
    expected = json.loads(recording.with_suffix(".expected.json").read_text())
    trace = open_trace(recording)
    observer = Observer(catalogue.load())
    findings: list[Finding] = []
    frames = 0
    for event in trace.events():
        if isinstance(event, Finding):
            continue
        frames += isinstance(event, Frame)
        findings += observer.observe(event)

    found = [{key: asdict(finding)[key] for key in expected_keys(expected)} for finding in findings]
    assert json.loads(json.dumps(found)) == expected["findings"]
    assert (observer.revision, frames, trace.complete) == (
        expected["revision"],
        expected["frames"],
        expected["complete"],
    )


def expected_keys(expected: dict[str, list[dict[str, object]]]) -> list[str]:
    return list(expected["findings"][0]) if expected["findings"] else []


def test_every_revision_has_a_recording() -> None:
    spoken = {json.loads(path.read_text())["revision"] for path in FOLDER.glob("*.expected.json")}
    assert spoken == set(REVISIONS)
