"""Find tools that a host kept from its model (PROMPT-001), or gave the name of another (PROMPT-002).

A ``ToolWay`` is a tool as its server listed it (on the *wire*) beside what the prompts have of it, and a
``ServerWay`` has the ways of all tools of a server.
"""

from collections.abc import Container, Iterable, Iterator

from mcpproxy.base.style import count
from mcpproxy.judge.checks.engine.context import Violation
from mcpproxy.judge.session.frame import CLIENT
from mcpproxy.model.tool_names import plain, written
from mcpproxy.model.turns import OfferedTool
from mcpproxy.protocol.wording import shown
from mcpproxy.read.prompt.arrivals import AskedModel
from mcpproxy.read.prompt.report import PromptReport, ServerWay, ToolWay
from mcpproxy.read.view.runs import Certainty


def tool_violations(way: ServerWay, report: PromptReport) -> Iterator[tuple[Violation, AskedModel]]:
    """Yield a violation for each tool that the prompt lacks, with the request that shows it.

    If the tool is kept from the model (PROMPT-001), that is the last request that offers other tools of the
    server. If its name in the prompt is that of another tool (PROMPT-002), it is the last that offers the
    other tool. The tools on a page that the client never read give one violation (PROMPT-001). Nothing is
    reported if the prompt has no tool of the server, if the host may load tools when its model searches for
    them, if several sessions of the recording listed tools, or if the recording ended before the request. Nor
    is a tool that is not for the model, that was listed after the request, or whose name is in a text of the
    prompt.
    """
    offered = way.offered
    asked = max((tool.asked for tool in offered), key=lambda request: request.at_ns, default=None)
    # Another session of the server, after this one or in the same recording, may have had other tools.
    if asked is None or asked.at_ns > way.server.open_ns[1] or way.server.lists > 1:
        return
    if _loads_later(offered, report):
        return
    for tool in way.tools:
        wire = tool.match.tool
        is_kept_back = tool.match.offered is None and not tool.in_text and wire.is_for_model
        if is_kept_back and wire.at_ns < asked.at_ns:
            yield _same_name_violation(tool, way, report) or (
                _missing_tool_violation(tool, way, len(offered)),
                asked,
            )
    unread = way.server.unread
    if unread is not None and unread.at_ns < asked.at_ns:
        problem = "client read no further page of the list, so its model was offered none of the tools there"
        yield (
            Violation("PROMPT-001", "X-022", problem, "/result/nextCursor", blame=CLIENT, frame=unread.frame),
            asked,
        )


def _loads_later(offered: Iterable[ToolWay], report: PromptReport) -> bool:
    """Whether the host may load tools when its model searches for them.

    The signs: a tool came after the first request, a tool is deferred, or the prompt has a tool about tools.
    """
    names = (plain(tool.name) for tool in report.others)
    return (
        report.first > 1
        or any(tool.since > 1 for tool in offered)
        or any(
            tool.match.offered is not None and tool.match.offered.deferred
            for server in report.servers
            for tool in server.tools
        )
        or any(tool.deferred for tool in report.others)
        or any("tool" in name and "resource" not in name for name in names)
        or any(map(_opens_a_group, report.others))
    )


def _opens_a_group(tool: OfferedTool) -> bool:
    """Whether ``tool`` brings a group of tools into the prompt: VS Code has such tools of its own."""
    return tool.name.startswith("activate_") and "category of tools" in (tool.description or "")


def _missing_tool_violation(tool: ToolWay, way: ServerWay, others: int) -> Violation:
    wire = tool.match.tool
    is_page_gone = wire.page > 1 and not way.has_page(wire.page)
    page = f", nor any other of page {wire.page} of the list" if is_page_gone else ""
    beside = count(others, "other tool")
    problem = f"client did not offer its model {shown(wire.name)}{page}, beside {beside} of the server"
    return Violation("PROMPT-001", "X-022", problem, f"{wire.pointer}/name", blame=CLIENT, frame=wire.frame)


def _same_name_violation(
    tool: ToolWay, way: ServerWay, report: PromptReport
) -> tuple[Violation, AskedModel] | None:
    """Return the violation of a tool whose name in the prompt is that of another tool (PROMPT-002).

    It is not enough that one name would fit both tools: the host must be seen to make such names. Otherwise,
    return ``None``.
    """
    wire, taker = tool.match.tool, tool.match.taken_by
    if taker is None:
        return None
    owner = next(
        candidate
        for candidate in report.servers[taker.server].offered
        if candidate.match.tool.name == taker.name
    )
    is_cut = owner.match.certainty is Certainty.GUESS  # only the match of a cut name is one
    if wire.server != taker.server:
        is_made = wire.name == taker.name and owner.match.prefix == ""
    else:
        is_made = (
            owner.is_twice or is_cut or _becomes(wire.name, _name_in_prompt(owner), _replaced_characters(way))
        )
    if not is_made:
        return None
    whose = "" if wire.server == taker.server else f" of {shown(report.servers[taker.server].server.label)}"
    name = owner.match.offered.name if owner.match.offered is not None else ""
    twice = ", which it offered twice" if owner.is_twice else ""
    problem = f"client gave its model one name, {shown(name)}, for {shown(wire.name)} and {shown(taker.name)}"
    violation = Violation(
        "PROMPT-002",
        "X-023",
        problem + whose + twice,
        f"{wire.pointer}/name",
        blame=CLIENT,
        at_most=None if owner.match.certainty is Certainty.CERTAIN else "info",
        frame=wire.frame,
    )
    return violation, owner.asked


def _becomes(name: str, in_prompt: str, replaced: Container[tuple[str, str]]) -> bool:
    """Whether ``name`` becomes ``in_prompt`` if characters are replaced as the pairs (old, new) say."""
    pairs = zip(name, in_prompt, strict=False)
    return len(name) == len(in_prompt) and all(old == new or (old, new) in replaced for old, new in pairs)


def _replaced_characters(way: ServerWay) -> frozenset[tuple[str, str]]:
    """Return the pairs (old, new) of characters that the host replaced in the names of a server's tools."""
    sure = (tool for tool in way.tools if tool.match.certainty is Certainty.CERTAIN)
    pairs = (zip(tool.match.tool.name, _name_in_prompt(tool), strict=False) for tool in sure)
    return frozenset((old, new) for name_pairs in pairs for old, new in name_pairs if old != new)


def _name_in_prompt(tool: ToolWay) -> str:
    """Return the tool's own name as the prompt spells it; empty if it was cut or is not in the prompt."""
    name, offered = tool.match.tool.name, tool.match.offered
    end = written(offered)[-len(name) :] if offered is not None else ""
    return end if plain(end) == plain(name) else ""
