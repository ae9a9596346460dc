"""Test reports: valid by the schemas that build servers are known to use, and what is a test in them."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest
import xmlschema

from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Finding
from mcpproxy.peers.replay.diff import comparison_report
from mcpproxy.peers.replay.diff.comparison import Change, ComparedItem, Comparison
from mcpproxy.read.reports import junit
from mcpproxy.read.reports.judged_traces import JudgedTrace, JudgedTraces, Unjudged
from mcpproxy.read.reports.junit import Case, Suite
from mcpproxy.read.reports.suites import suites
from tests.peers.fixtures import Peers

KNOWN: Final = catalogue.load()
AT: Final = datetime(2026, 3, 1, 12, 30, tzinfo=timezone(timedelta(hours=2)))
HOSTILE: Final = 'a "b" <c> & \x1b[31m]]> \ud800 \u2028\nend'

WRONG_ID: Final = Finding("PROTO-007", "error", "server", "wrong id", 12, (3,), "/id")
WRONG_AGAIN: Final = Finding("PROTO-007", "error", "server", HOSTILE, 14)
UNKNOWN: Final = Finding("PROTO-006", "warning", "server", "unknown notification", 13)
CLEAN: Final = JudgedTrace("t/clean.jsonl", True, "2025-11-25", 9, ())
FAULTY: Final = JudgedTrace(
    "t/faulty.jsonl",
    False,
    "2025-11-25",
    82,
    (WRONG_ID, UNKNOWN, WRONG_AGAIN),
    ("cut off",),
    places={number: ("t/faulty.jsonl", number + 3) for number in (12, 13, 14)},
)
RUN: Final = JudgedTraces((CLEAN, FAULTY), (Unjudged("t/gone.jsonl", "no such file"),))


def document(*found: Suite) -> str:
    return "\n".join(junit.lines(found, AT))


def cases(text: str) -> dict[tuple[str, str], str]:
    """(class, name) -> how it went."""
    return {
        (case.get("classname", ""), case.get("name", "")): next((one.tag for one in case), "passed")
        for case in ElementTree.fromstring(text).iter("testcase")
    }


@pytest.fixture(scope="module")
def schemas(peers: Peers) -> dict[str, xmlschema.XMLSchema10]:
    folder = peers.report_schemas()
    return {name: xmlschema.XMLSchema10(str(folder / name)) for name in ("JUnit.xsd", "jenkins-junit.xsd")}


DOCUMENTS: Final = {
    "of a check": document(*suites(RUN, KNOWN)),
    "of nothing": document(),
    "of a comparison": "\n".join(
        comparison_report.junit_lines(
            Comparison(
                "before.jsonl",
                "after.jsonl",
                [
                    ComparedItem("tools/list", "same", 3, 3),
                    ComparedItem(HOSTILE, "changed", 5, 5, (Change("value", HOSTILE),), session="1a2b3c4d"),
                    ComparedItem("ping", "new", None, 9, remark="more than before"),
                ],
                [HOSTILE],
            )
        )
    ),
    "of what took a while": document(Suite(HOSTILE, (Case("a.b", HOSTILE, 1234.5678, "error", HOSTILE),))),
}


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_report_is_valid(schemas: dict[str, xmlschema.XMLSchema10], text: str) -> None:
    for schema in schemas.values():
        schema.validate(text)
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        schemas["JUnit.xsd"].validate(text.replace("</testsuites>", "<testcase/></testsuites>"))


def test_a_skipped_case_is_one_for_jenkins(schemas: dict[str, xmlschema.XMLSchema10]) -> None:
    text = document(Suite("s", (Case("c", "n", 0.25, "skipped", "not in this revision"),)))
    schemas["jenkins-junit.xsd"].validate(text)
    (suite,) = ElementTree.fromstring(text)
    assert (suite.get("skipped"), suite.get("tests"), suite.get("time")) == ("1", "1", "0.250")
    assert suite.findtext("testcase/skipped") == "not in this revision"


def test_a_rule_is_a_test_and_a_clean_recording_passes_one() -> None:
    assert cases(document(*suites(RUN, KNOWN))) == {
        ("t/clean", "no findings"): "passed",
        ("t/faulty", "PROTO-006 unknown-notification"): "passed",
        ("t/faulty", "PROTO-007 mismatched-response-id"): "failure",
        ("t/gone", "can be judged"): "error",
    }
    strict = JudgedTraces(RUN.traces, strict=True)
    assert cases(document(*suites(strict, KNOWN)))["t/faulty", "PROTO-006 unknown-notification"] == "failure"


def test_a_failure_tells_every_finding_and_a_suite_what_does_not_count() -> None:
    faulty = ElementTree.fromstring(document(*suites(RUN, KNOWN)))[1]
    failure = faulty.find("testcase/failure")
    assert failure is not None
    assert (failure.get("message"), failure.get("type")) == ("wrong id (1 more)", "error")
    told = failure.text or ""
    assert "t/faulty.jsonl:15: error PROTO-007 frame 12: server: wrong id\n    at /id  see frame 3" in told
    assert "t/faulty.jsonl:17: error PROTO-007 frame 14: " in told
    notes = faulty.findtext("system-out") or ""
    assert notes.splitlines() == [
        "t/faulty.jsonl: incomplete: cut off",
        "t/faulty.jsonl:16: warning PROTO-006 frame 13: server: unknown notification",
    ]
    counts = {name: faulty.get(name) for name in ("tests", "failures", "errors", "timestamp")}
    assert counts == {"tests": "2", "failures": "1", "errors": "0", "timestamp": "2026-03-01T10:30:00"}


def test_a_report_is_of_now_unless_told_otherwise() -> None:
    (suite,) = ElementTree.fromstring("\n".join(junit.lines([Suite("s", ())])))
    at = datetime.fromisoformat(suite.get("timestamp", "")).replace(tzinfo=UTC)
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=5)


def test_what_xml_cannot_say_is_written_as_an_escape(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text(document(Suite("s", (Case("c", HOSTILE, status="failed", message=HOSTILE),))), "utf-8")
    (failure,) = ElementTree.parse(path).iter("failure")
    assert failure.text == 'a "b" <c> & \\u001b[31m]]> \\ud800 \\u2028\nend'
