"""What a correct client does: lists and reads everything that a server offers, without side effects.

Tools are called only if they declare ``readOnlyHint``, or where the user says so.
"""

from contextlib import suppress
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.revisions import STATEFUL
from mcpproxy.protocol.wording import shown
from mcpproxy.validate.errors import (
    CouldNotStartError,
    HttpStatusError,
    RefusedError,
    Skipped,
    UnsupportedVersionError,
    ValidateError,
)
from mcpproxy.validate.outcome import Conclusion
from mcpproxy.validate.probe import Probe, passed
from mcpproxy.validate.probe_context import ProbeContext
from mcpproxy.validate.sample import sample

_SOME: Final = 5
"""How many resources and prompts are read, and how many read-only tools are called."""


async def _connect(context: ProbeContext) -> Conclusion:
    try:
        await context.start()
    except CouldNotStartError as fault:
        context.open_failure = str(fault)
        raise
    return passed("it is there" if context.target.url else "it was started")


async def _handshake(context: ProbeContext) -> Conclusion:
    client = context.client
    wanted = client.revision
    try:
        answer = await client.connect()
    except ValidateError as fault:
        # A server of the other era may refuse in any way.
        kinds = (UnsupportedVersionError, RefusedError, HttpStatusError)
        context.is_revision_refused = isinstance(fault, kinds)
        context.open_failure = f"there is no session: {fault}"
        raise
    context.server = client.server
    if client.revision != wanted and context.is_exact:
        context.is_revision_refused = True
        context.open_failure = f"the server does not speak {wanted}"
        raise UnsupportedVersionError(
            f"asked for {wanted}, the server offers {client.revision}", answer.frames, (client.revision,)
        )
    context.revision = client.revision
    info = context.server_info
    name = f"{info.get('name', 'a server without name')} {info.get('version', '')}".strip()
    return passed(f"{name} speaks {client.revision}", answer.frames)


async def _ping(context: ProbeContext) -> Conclusion:
    answer = await context.client.ping()
    if answer.is_error:
        return context.violation("LIFE-004/R-040", "ping was refused", answer.frames)
    return passed("answered", answer.frames)


async def _tools(context: ProbeContext) -> Conclusion:
    context.inventory.tools = await context.client.list("tools/list")
    return passed(_counted(context.inventory.tools, "tool"))


async def _resources(context: ProbeContext) -> Conclusion:
    context.inventory.resources = await context.client.list("resources/list")
    return passed(_counted(context.inventory.resources, "resource"))


async def _templates(context: ProbeContext) -> Conclusion:
    answer = await context.client.request("resources/templates/list")
    if answer.code == -32601:
        raise Skipped("the server has no resource templates (-32601)")
    context.inventory.templates = await context.client.list("resources/templates/list")
    return passed(_counted(context.inventory.templates, "template"))


async def _prompts(context: ProbeContext) -> Conclusion:
    context.inventory.prompts = await context.client.list("prompts/list")
    return passed(_counted(context.inventory.prompts, "prompt"))


async def walk_tools(context: ProbeContext) -> None:
    """List the tools, unless that was done before."""
    context.inventory.tools = context.inventory.tools or await context.client.list("tools/list")


async def walk_resources(context: ProbeContext) -> None:
    """As ``walk_tools``."""
    inventory, client = context.inventory, context.client
    inventory.resources = inventory.resources or await client.list("resources/list")
    with suppress(RefusedError):  # not every server has templates
        inventory.templates = inventory.templates or await client.list("resources/templates/list")


async def walk_prompts(context: ProbeContext) -> None:
    """As ``walk_tools``."""
    context.inventory.prompts = context.inventory.prompts or await context.client.list("prompts/list")


async def _calls(context: ProbeContext) -> Conclusion:
    await walk_tools(context)
    calls = to_call(context)
    if not calls:
        raise Skipped("no tool declares readOnlyHint; name one with --call NAME=JSON, or --call-all")
    frames: list[int] = []
    text: list[str] = []
    for name, arguments in calls:
        answer = await context.client.request("tools/call", {"name": name, "arguments": arguments})
        frames += answer.frames
        if answer.is_error:
            text.append(f"{name} refused ({shown(answer.code)})")
        elif answer.members.get("isError") is True:
            text.append(f"{name} failed (isError)")
        else:
            text.append(name)
    return passed(f"called {', '.join(text)}", tuple(frames))


def to_call(context: ProbeContext) -> list[tuple[str, JSONObject]]:
    """The tools that may be called, with arguments: read-only ones, and those that the user named."""
    named = list(context.options.calls)
    for tool in context.inventory.tools:
        name = tool.get("name")
        annotations = tool.get("annotations")
        is_harmless = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
        wanted = context.options.calls_all or (is_harmless and len(named) < _SOME)
        if isinstance(name, str) and wanted and all(name != given for given, _ in named):
            arguments = sample(tool.get("inputSchema"))
            if isinstance(arguments, dict):
                named.append((name, arguments))
    return named


async def _reads(context: ProbeContext) -> Conclusion:
    await walk_resources(context)
    uris = [uri for one in context.inventory.resources if isinstance(uri := one.get("uri"), str)][:_SOME]
    if not uris:
        raise Skipped("there are no resources")
    frames: list[int] = []
    for uri in uris:
        answer = await context.client.request("resources/read", {"uri": uri})
        frames += answer.frames
        if answer.is_error:
            return Conclusion(
                "warning", f"{shown(uri)} is listed and cannot be read: {answer.refusal}", answer.frames
            )
    return passed(f"{len(uris)} read", tuple(frames))


async def _gets(context: ProbeContext) -> Conclusion:
    await walk_prompts(context)
    prompts = [one for one in context.inventory.prompts if isinstance(one.get("name"), str)][:_SOME]
    if not prompts:
        raise Skipped("there are no prompts")
    frames: list[int] = []
    for prompt in prompts:
        arguments = _prompt_arguments(prompt)
        params: JSONObject = {"name": prompt["name"], "arguments": arguments}
        answer = await context.client.request("prompts/get", params)
        frames += answer.frames
        if answer.is_error and not arguments:  # generated arguments may be unsuitable
            return Conclusion(
                "warning",
                f"prompt {shown(prompt['name'])} is listed and cannot be had: {answer.refusal}",
                answer.frames,
            )
    return passed(f"{len(prompts)} got", tuple(frames))


def _prompt_arguments(prompt: JSONObject) -> JSONObject:
    arguments = prompt.get("arguments")
    found: JSONObject = {}
    for one in arguments if isinstance(arguments, list) else ():
        if isinstance(one, dict) and isinstance(name := one.get("name"), str) and one.get("required") is True:
            found[name] = "example"
    return found


async def _completes(context: ProbeContext) -> Conclusion:
    await walk_prompts(context)
    for prompt in context.inventory.prompts:
        arguments = prompt.get("arguments")
        for one in arguments if isinstance(arguments, list) else ():
            if isinstance(one, dict) and isinstance(one.get("name"), str):
                reference: JSON = {"type": "ref/prompt", "name": prompt["name"]}
                params: JSON = {"ref": reference, "argument": {"name": one["name"], "value": ""}}
                answer = await context.client.request("completion/complete", params)
                if answer.is_error:
                    text = f"completion of {shown(prompt['name'])} is refused: {answer.refusal}"
                    return Conclusion("warning", text, answer.frames)
                return passed("answered", answer.frames)
    raise Skipped("no prompt has an argument that could be completed")


async def _logs(context: ProbeContext) -> Conclusion:
    answer = await context.client.request("logging/setLevel", {"level": "debug"})
    if answer.is_error:
        return Conclusion("warning", f"logging is declared and refused: {answer.refusal}", answer.frames)
    return passed("the level was taken", answer.frames)


def _counted(items: list[JSONObject], noun: str) -> str:
    names = [str(item.get("name", item.get("uri", "?"))) for item in items]
    listed = f": {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else ""
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}{listed}"


ALWAYS: Final = (
    Probe("connect", "connection", "The server starts, or can be reached.", _connect, session=False),
    Probe(
        "handshake",
        "lifecycle",
        "The session opens: initialize and initialized, or server/discover.",
        _handshake,
        session=False,
    ),
)

PROBES: Final = (
    *ALWAYS,
    Probe("ping", "lifecycle", "ping is answered.", _ping, rules=("LIFE-004",), revisions=STATEFUL),
    Probe("list-tools", "tools", "tools/list, all pages.", _tools, needs=("tools",)),
    Probe("call-tools", "tools", "Tools that only read are called.", _calls, needs=("tools",)),
    Probe("list-resources", "resources", "resources/list, all pages.", _resources, needs=("resources",)),
    Probe(
        "list-resource-templates",
        "resources",
        "resources/templates/list, all pages.",
        _templates,
        needs=("resources",),
    ),
    Probe("read-resources", "resources", "What is listed can be read.", _reads, needs=("resources",)),
    Probe("list-prompts", "prompts", "prompts/list, all pages.", _prompts, needs=("prompts",)),
    Probe("get-prompts", "prompts", "What is listed can be had.", _gets, needs=("prompts",)),
    Probe("complete", "completion", "An argument is completed.", _completes, needs=("completions",)),
    Probe(
        "set-log-level",
        "logging",
        "logging/setLevel is taken.",
        _logs,
        needs=("logging",),
        revisions=STATEFUL,
    ),
)
