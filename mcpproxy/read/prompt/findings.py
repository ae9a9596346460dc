"""Report what a host did to tools, calls and results on their way to its model (findings PROMPT-001 to 005).

Each finding is about a frame in the recording of a server, and names a frame in the recording of the model's
interface. None is an error, because none breaks the protocol. What is not sure is an info or is left out.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.engine.context import Violation
from mcpproxy.judge.observer.findings import FindingBuilder
from mcpproxy.judge.session.frame import CLIENT, SERVER, Finding
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.protocol.wording import shown, unquoted
from mcpproxy.read.prompt.arrivals import AskedModel
from mcpproxy.read.prompt.call_findings import call_violations
from mcpproxy.read.prompt.refused_places import refused_place
from mcpproxy.read.prompt.report import PromptReport, RefusedTool, ServerWay
from mcpproxy.read.prompt.tool_findings import tool_violations
from mcpproxy.read.view.folder import recording
from mcpproxy.read.view.runs import Certainty, link_between

TOOLS_LOST: Final = ("PROMPT-001", "PROMPT-002")
"""The rules about tools that the prompt lacks."""
PROMPTS: Final = (*TOOLS_LOST, "PROMPT-003", "PROMPT-004", "PROMPT-005")
"""All rules that are judged here."""
_MOST_QUOTED: Final = 240
"""How many characters of a service's refusal a finding quotes. The reason is often at the end of it."""


@slotted(frozen=True)
class PromptFinding:
    """A finding in the recording of a server.

    ``server`` is the server's number in the report. ``model_frame`` is the frame in the recording of the
    model's interface that shows it.
    """

    server: int
    finding: Finding
    model_frame: int


def prompt_findings(report: PromptReport, model: str, catalogue: Catalogue) -> tuple[PromptFinding, ...]:
    """Return the findings of the run that ``report`` describes: a conversation with a model and its servers.

    ``model`` is the path of the recording of the model's interface. Servers are left out unless it is sure
    that the host which sent the requests to the model used them.
    """
    build, file = FindingBuilder(catalogue), os.path.basename(model)
    sure = _servers_of_the_run(report)
    findings: list[PromptFinding] = []
    for way in report.servers:
        if way.server.number in sure:
            for violation, asked in (*tool_violations(way, report), *call_violations(way)):
                findings += _build_findings(build, way.server.number, violation, asked, file)
    for refused in report.refusals:
        for tool in refused.tools:
            if tool.match is not None and tool.match.tool.server in sure:
                violation = _refusal_violation(tool, report.servers[tool.match.tool.server])
                if violation is not None:
                    findings += _build_findings(
                        build, tool.match.tool.server, violation, AskedModel(refused.seq), file
                    )
    return tuple(sorted(findings, key=lambda result: (result.server, result.finding.frame)))


def _build_findings(
    build: FindingBuilder, server: int, violation: Violation, asked: AskedModel, file: str
) -> Iterator[PromptFinding]:
    located = replace(violation, message=f"{violation.message} (frame {asked.frame} of {unquoted(file)})")
    for finding in build((located,), violation.frame or 0, CLIENT, REVISIONS):
        yield PromptFinding(server, finding, asked.frame)


# Which servers the host used


def _servers_of_the_run(report: PromptReport) -> frozenset[int]:
    """Return the numbers of the servers whose sessions surely are of the host that sent the requests.

    Recordings that were open at the same time may be of two hosts. A session is surely this host's if a call
    is on both sides, known by its id or else with its result; if a description is on both sides, and no
    session with the same server was open beside it; or if the same process certainly started it and one of
    these.
    """
    sure = {
        way.server.number for way in report.servers if _shares_call(way) or _shares_description(way, report)
    }
    others = [way.server for way in report.servers if way.server.number not in sure]
    if not sure or not others:
        return frozenset(sure)
    known = [recording(way.server.path) for way in report.servers if way.server.number in sure]
    linked = {
        server.number
        for server in others
        if any(link_between(recording(server.path), entry) is Certainty.CERTAIN for entry in known)
    }
    return frozenset(sure | linked)


def _shares_call(way: ServerWay) -> bool:
    """Whether a call, with its result if its id is unknown, is on both sides."""
    return any(
        call.certainty is Certainty.CERTAIN
        or (call.certainty is Certainty.LIKELY and any(part.change.is_there for part in call.pieces))
        for call in way.calls
        if call.model is not None
    )


def _shares_description(way: ServerWay, report: PromptReport) -> bool:
    """Whether a description is on both sides, and no session with the same server was open beside it.

    Only the descriptions of tools with a certain match count.
    """
    server = way.server
    began, ended = server.open_ns
    others = [other_way.server for other_way in report.servers if other_way.server.number != server.number]
    for other in others:
        is_alike = (other.label, other.name) == (server.label, server.name)
        if is_alike and began <= other.open_ns[1] and other.open_ns[0] <= ended:
            return False
    return any(
        tool.match.certainty is Certainty.CERTAIN
        and tool.match.offered is not None
        and tool.description.is_there
        for tool in way.tools
    )


# Refusals


def _refusal_violation(refused: RefusedTool, way: ServerWay) -> Violation | None:
    """Return the violation of a definition that the service refused (PROMPT-005).

    The refusal must name a place in the definition, else return ``None``: a service may name a tool for other
    reasons.
    """
    match = refused.match
    tool = next(
        (
            candidate
            for candidate in way.tools
            if match is not None and candidate.match.tool.name == match.tool.name
        ),
        None,
    )
    if match is None or tool is None:
        return None
    wire, place = match.tool, refused_place(refused.meant.within, refused.meant.said, tool)
    if place is None:
        return None
    at = f" at {unquoted(place.pointer.removeprefix(place.member))}" if place.pointer != place.member else ""
    blame = SERVER if place.is_of_the_server else CLIENT
    said = shown(refused.meant.said, _MOST_QUOTED)
    problem = f"{blame} {place.did} of {shown(wire.name)} that the service refused{at}: {said}"
    return Violation(
        "PROMPT-005",
        "X-026",
        problem,
        wire.pointer + place.pointer,
        blame=blame,
        at_most=None if match.certainty is Certainty.CERTAIN and place.is_sure else "info",
        frame=wire.frame,
    )
