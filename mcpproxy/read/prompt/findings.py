"""What a host did to tools, calls and results on their way to its model, as findings (family PROMPT).

Each is about a frame in the recording of a server, and names a frame in that of the model's interface.
Nothing of it breaks the protocol, so none is an error. What is not sure is an info, or not said.
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
PROMPTS: Final = (*TOOLS_LOST, "PROMPT-003", "PROMPT-004", "PROMPT-005")
_MOST_SAID: Final = 240
"""How many characters of a service's refusal are told: the reason stands at its end."""


@slotted(frozen=True)
class PromptFinding:
    """A finding in the recording of a server, which is ``server`` in the report, and where the model's side
    shows it: ``model_frame``, in the recording of the model's interface."""

    server: int
    finding: Finding
    model_frame: int


def prompt_findings(report: PromptReport, model: str, catalogue: Catalogue) -> tuple[PromptFinding, ...]:
    """Return the findings of a run; ``model`` is the path of the recording of the model's interface."""
    build, file = FindingBuilder(catalogue), os.path.basename(model)
    sure = _servers_of_the_run(report)
    found: list[PromptFinding] = []
    for way in report.servers:
        if way.server.number in sure:
            for violation, asked in (*tool_violations(way, report), *call_violations(way)):
                found += _built(build, way.server.number, violation, asked, file)
    for refused in report.refusals:
        for tool in refused.tools:
            if tool.match is not None and tool.match.tool.server in sure:
                violation = _refusal(tool, report.servers[tool.match.tool.server])
                if violation is not None:
                    found += _built(build, tool.match.tool.server, violation, AskedModel(refused.seq), file)
    return tuple(sorted(found, key=lambda one: (one.server, one.finding.frame)))


def _built(
    build: FindingBuilder, server: int, violation: Violation, asked: AskedModel, file: str
) -> Iterator[PromptFinding]:
    told = replace(violation, message=f"{violation.message} (frame {asked.frame} of {unquoted(file)})")
    for finding in build((told,), violation.frame or 0, CLIENT, REVISIONS):
        yield PromptFinding(server, finding, asked.frame)


# Which servers are those of the host


def _servers_of_the_run(report: PromptReport) -> frozenset[int]:
    """Return the numbers of the servers whose sessions are surely those of the host that asked the model.

    Recordings that were open at the same time may be those of two hosts. A server is that of this one if a
    call and its result went through both, or a description, which no session beside this one has as well; or
    if the process that started its session also started that of such a server.
    """
    sure = {
        way.server.number for way in report.servers if _has_a_call(way) or _has_a_description(way, report)
    }
    others = [way.server for way in report.servers if way.server.number not in sure]
    if not sure or not others:
        return frozenset(sure)
    known = [recording(way.server.path) for way in report.servers if way.server.number in sure]
    linked = {
        server.number
        for server in others
        if any(link_between(recording(server.path), one) is Certainty.CERTAIN for one in known)
    }
    return frozenset(sure | linked)


def _has_a_call(way: ServerWay) -> bool:
    return any(
        call.certainty is Certainty.CERTAIN
        or (call.certainty is Certainty.LIKELY and any(one.change.is_there for one in call.pieces))
        for call in way.calls
        if call.model is not None
    )


def _has_a_description(way: ServerWay, report: PromptReport) -> bool:
    server = way.server
    began, ended = server.open_ns
    for other in (one.server for one in report.servers if one.server.number != server.number):
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


def _refusal(refused: RefusedTool, way: ServerWay) -> Violation | None:
    """Return the violation of a definition that the service refused (PROMPT-005).

    Only a place in a definition says that it was refused: a service names tools for other reasons, too.
    """
    match = refused.match
    tool = next(
        (one for one in way.tools if match is not None and one.match.tool.name == match.tool.name), None
    )
    if match is None or tool is None:
        return None
    wire, place = match.tool, refused_place(refused.meant.within, refused.meant.said, tool)
    if place is None:
        return None
    at = f" at {unquoted(place.pointer.removeprefix(place.member))}" if place.pointer != place.member else ""
    blame = SERVER if place.is_of_the_server else CLIENT
    said = shown(refused.meant.said, _MOST_SAID)
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
