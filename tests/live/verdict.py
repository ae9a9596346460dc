"""What mcpproxy finds in a recording, conversation by conversation."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import TypeAlias, TypedDict, cast

from mcpproxy.cli.commands import check
from mcpproxy.judge.session.frame import Finding, Frame, RequestHead, ResponseHead
from mcpproxy.read.opening import follow
from mcpproxy.record.trace.encode import finding_object


class Found(TypedDict):
    """A finding, as far as it matters here, as the JSON report has it."""

    rule: str
    severity: str
    blame: str
    message: str
    frame: int
    requirement: str


Verdict: TypeAlias = dict[str, list[Found]]
"""The findings in each conversation, by its title."""


def judged(trace: Path, idle_s: int = 0) -> Verdict:
    """What ``mcpproxy check`` finds, by the title of the conversation in which it is.

    With ``idle_s`` the recording is made to end so much later: nobody waits for minutes in a test.

    Raises:
        AssertionError: the recording is not whole, or something else was found while it was made.
    """
    recorded: list[Found] = []
    titles: dict[int, str] = {}  # by connection
    spoken: dict[int, str] = {}  # by number of a head or a frame
    for record in follow(trace):  # to its end: the recorder may still be at it
        if isinstance(record, Finding):
            recorded.append(json.loads(json.dumps(finding_object(record))))
        elif isinstance(record, RequestHead | ResponseHead | Frame):
            if isinstance(record, RequestHead):
                titles[record.connection] = dict(record.headers)["User-Agent"]
            spoken[record.seq] = titles[record.connection]
    found = _report(trace)
    assert found == recorded
    if idle_s:
        _end_later(trace, idle_s)
        found = _report(trace)
    verdict: Verdict = {title: [] for title in titles.values()}
    for finding in found:
        verdict[spoken[finding["frame"]]].append(finding)
    return verdict


def _report(trace: Path) -> list[Found]:
    """The findings in a whole recording, as the command reports them."""
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(said):
        code = check.run([str(trace), "--format", "json"])
    said.seek(0)
    report = json.load(said)
    assert code == report["summary"]["exit_code"] < 2
    assert report["summary"]["incomplete"] == 0
    # Where in the file they stand, and by what they are known again, is the report's alone.
    own = ("file", "line", "fingerprint")
    findings = cast("list[dict[str, object]]", report["traces"][0]["findings"])
    return [cast("Found", {name: one[name] for name in one if name not in own}) for one in findings]


def _end_later(trace: Path, idle_s: int) -> None:
    """Put the clock forward between the last thing that was recorded and the end."""
    *records, last = trace.read_bytes().splitlines(keepends=True)
    close = json.loads(last)
    close["t"] += idle_s * 1_000_000_000
    trace.write_bytes(b"".join(records) + json.dumps(close, separators=(",", ":")).encode() + b"\n")
