"""The requests of a correct client: the handshake, lists of everything that a server offers, reads and calls.

A tool is called only if it declares ``readOnlyHint``, or if the user asks for it.
"""

import re
from contextlib import suppress
from typing import Final

from mcpproxy.errors import UsageError, nearest
from mcpproxy.peers.validate.era_choice import raise_if_moved
from mcpproxy.peers.validate.errors import (
    CouldNotStartError,
    ForeignEndpointError,
    HttpStatusError,
    MalformedAnswerError,
    RefusedError,
    Skipped,
    TimedOutError,
    UnsupportedVersionError,
    ValidateError,
)
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.probe import Probe, passed, remarked
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.sample import sample
from mcpproxy.peers.validate.transports.reachability import why_no_server
from mcpproxy.protocol.error_message import METHOD_NOT_FOUND
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import member, text_member
from mcpproxy.protocol.revisions import STATEFUL
from mcpproxy.protocol.wording import shown

_MAX_ITEMS: Final = 5
"""The most resources and prompts that are read, and the most read-only tools that are called in addition to
those that the user chose."""

_VARIABLE: Final = re.compile(r"\{[+#./;?&]?(\w+)")
"""The first variable of an expression in a URI template (RFC 6570, section 2)."""


async def _connect(context: ProbeContext) -> Conclusion:
    try:
        await context.start()
    except CouldNotStartError as fault:
        context.open_failure = str(fault)
        raise
    return passed("something listens" if context.target.url else "it was started")


async def _handshake(context: ProbeContext) -> Conclusion:
    client = await context.started()
    requested = client.revision
    try:
        answer = await client.connect()
    except ValidateError as failure:
        # The errors that a server without support for the revision may cause.
        refusals = (UnsupportedVersionError, RefusedError, HttpStatusError)
        # A timeout does not count here: the server may only be slow.
        was_seen = context.was_seen or (client.received and client.wire.recording.server_frames)
        no_sign_of_server = not (was_seen or isinstance(failure, TimedOutError | ForeignEndpointError))
        context.is_revision_refused = no_sign_of_server or isinstance(failure, refusals)
        context.open_failure = f"there is no session: {failure}"
        if no_sign_of_server and not context.is_optional:
            await _check_presence(context, failure)
        raise
    context.server = client.server
    if client.revision != requested and context.is_exact:
        context.is_revision_refused = True
        context.open_failure = f"the server does not speak {requested}"
        raise UnsupportedVersionError(
            f"asked for {requested}, the server offers {client.revision}", answer.frames, (client.revision,)
        )
    context.revision = client.revision
    info = context.server_info
    name = f"{info.get('name', 'a server without name')} {info.get('version', '')}".strip()
    await _check_calls(context)
    return passed(f"{name} speaks {client.revision}", answer.frames)


async def _check_presence(context: ProbeContext, failure: ValidateError) -> None:
    """Find out why there is nothing to test, if the handshake failed and nothing was received.

    Raises:
        CouldNotStartError: there is no server, or the server refuses us.
    """
    if not context.target.url:
        raise CouldNotStartError(f"{context.target.name}: {failure}", failure.frames) from None
    raise_if_moved(failure)
    if reason := await why_no_server(context.target.url, failure, context.target.upstream):
        raise CouldNotStartError(reason, failure.frames) from None


async def _check_calls(context: ProbeContext) -> None:
    """Check that the server has the tools that ``--call`` names.

    Raises:
        UsageError: the server does not have one of them.
    """
    if not context.options.calls:
        return
    if not context.declares("tools"):
        raise UsageError("--call", "the server declares no tools", "leave it out")
    try:
        await ensure_tools_listed(context)
    except ValidateError:
        return  # the probe ``list-tools`` reports the failure
    names = [str(tool.get("name")) for tool in context.inventory.tools]
    for name, _ in context.options.calls:
        if name not in names:
            guess = nearest(name, names)
            step = f"did you mean {guess}?" if guess else f"it has {', '.join(names[:8]) or 'none'}"
            raise UsageError("--call", f"the server has no tool {name!r}", step)


async def _ping(context: ProbeContext) -> Conclusion:
    answer = await context.client.ping()
    if answer.is_error:
        context.inventory.failures["ping"] = f"ping is refused in any session: {answer.refusal}"
        return context.violation("LIFE-004/R-040", "ping was refused", answer.frames)
    return passed("answered", answer.frames)


async def _list_tools(context: ProbeContext) -> Conclusion:
    return await _request_list(context, "tools/list", "tool", context.inventory.tools)


async def _list_resources(context: ProbeContext) -> Conclusion:
    return await _request_list(context, "resources/list", "resource", context.inventory.resources)


async def _list_templates(context: ProbeContext) -> Conclusion:
    method = "resources/templates/list"
    answer = await context.client.request(method)
    if answer.code == METHOD_NOT_FOUND:
        raise Skipped("the server has no resource templates (-32601)")
    return await _request_list(context, method, "template", context.inventory.templates)


async def _list_prompts(context: ProbeContext) -> Conclusion:
    return await _request_list(context, "prompts/list", "prompt", context.inventory.prompts)


async def _request_list(context: ProbeContext, method: str, noun: str, items: list[JSONObject]) -> Conclusion:
    """Request a list and store its entries in ``items``.

    A refusal is an info, because the declared feature cannot be used without its list. Only a refusal as
    an unknown method breaks a sentence of the specification.
    """
    try:
        items[:] = await context.client.list(method)
    except RefusedError as refusal:
        context.inventory.failures[method] = str(refusal)
        text = f"{method.partition('/')[0]} are declared, but {refusal}"
        if refusal.code == METHOD_NOT_FOUND:
            return context.violation("PROTO-009/R-046", text, refusal.frames)
        return remarked(text, refusal.frames)
    except MalformedAnswerError as failure:
        context.inventory.failures[method] = str(failure)
        raise
    return passed(_counted(items, noun))


async def list_items(context: ProbeContext, method: str) -> list[JSONObject]:
    """Return all items of a list of the server; ``method`` is a list method, such as ``tools/list``.

    Raises:
        Skipped: an earlier request for the list failed.
        ValidateError: the request fails.
    """
    if failure := context.inventory.failures.get(method):
        raise Skipped(f"because {failure}")
    try:
        return await context.client.list(method)
    except (RefusedError, MalformedAnswerError) as failure:
        context.inventory.failures[method] = str(failure)
        raise


async def ensure_tools_listed(context: ProbeContext) -> None:
    """List the tools, unless they are in the inventory.

    Raises:
        As ``list_items``.
    """
    context.inventory.tools = context.inventory.tools or await list_items(context, "tools/list")


async def ensure_resources_listed(context: ProbeContext) -> None:
    """List the resources and their templates, unless they are in the inventory.

    A server that refuses to list templates counts as one without.

    Raises:
        As ``list_items``.
    """
    inventory = context.inventory
    inventory.resources = inventory.resources or await list_items(context, "resources/list")
    with suppress(RefusedError, Skipped):  # not every server has templates
        inventory.templates = inventory.templates or await list_items(context, "resources/templates/list")


async def ensure_prompts_listed(context: ProbeContext) -> None:
    """List the prompts, unless they are in the inventory.

    Raises:
        As ``list_items``.
    """
    context.inventory.prompts = context.inventory.prompts or await list_items(context, "prompts/list")


async def _call_tools(context: ProbeContext) -> Conclusion:
    await ensure_tools_listed(context)
    calls = allowed_calls(context)
    if not calls:
        raise Skipped("no tool declares readOnlyHint; name one with --call NAME=JSON, or --call-all")
    frames: list[int] = []
    called: list[str] = []
    refused: list[str] = []
    untried: list[str] = []
    for name, arguments in calls:
        answer = await context.call(name, arguments)
        frames += answer.frames
        is_failed = answer.members.get("isError") is True
        if not (answer.is_error or is_failed):
            called.append(name)
            continue
        refused.append(
            f"{name} failed (isError)" if is_failed else f"{name} was refused ({shown(answer.code)})"
        )
        if (name, arguments) not in context.options.calls:
            untried.append(name)
    if not called and len(untried) == len(refused):
        what = f"with made-up arguments {'; '.join(refused)}"
        raise Skipped(f"{what}; name arguments with --call {untried[0]}=JSON")
    parts = [f"called {', '.join(called)}"] if called else []
    return passed("; ".join([*parts, *refused]), tuple(frames))


def allowed_calls(context: ProbeContext) -> list[tuple[str, JSONObject]]:
    """Return the tools that may be called, each with arguments.

    These are the tools that the user chose (with ``calls_all`` every tool), and the first read-only tools.
    Tools that did not answer in time are left out, and those whose generated arguments are no object.
    """
    calls = list(context.options.calls)
    most_calls = len(calls) + _MAX_ITEMS
    for tool in context.inventory.tools:
        name = tool.get("name")
        annotations = tool.get("annotations")
        is_harmless = member(annotations, "readOnlyHint") is True
        is_allowed = context.options.calls_all or (is_harmless and len(calls) < most_calls)
        if isinstance(name, str) and is_allowed and all(name != other for other, _ in calls):
            arguments = sample(tool.get("inputSchema"))
            if isinstance(arguments, dict):
                calls.append((name, arguments))
    return [call for call in calls if call[0] not in context.slow_tools]


async def _read_resources(context: ProbeContext) -> Conclusion:
    await ensure_resources_listed(context)
    resources = context.inventory.resources
    uris = [uri for resource in resources if isinstance(uri := resource.get("uri"), str)][:_MAX_ITEMS]
    if not uris:
        raise Skipped("there are no resources")
    frames: list[int] = []
    for uri in uris:
        answer = await context.client.request("resources/read", {"uri": uri})
        frames += answer.frames
        if answer.is_error:
            return remarked(f"{shown(uri)} is listed and cannot be read: {answer.refusal}", answer.frames)
    return passed(f"{len(uris)} read", tuple(frames))


def named_prompts(context: ProbeContext) -> list[JSONObject]:
    """Return the listed prompts whose ``name`` is a string. No request can name the others."""
    return [prompt for prompt in context.inventory.prompts if text_member(prompt, "name") is not None]


async def _get_prompts(context: ProbeContext) -> Conclusion:
    await ensure_prompts_listed(context)
    prompts = named_prompts(context)[:_MAX_ITEMS]
    if not prompts:
        raise Skipped("there are no prompts")
    frames: list[int] = []
    for prompt in prompts:
        arguments = _prompt_arguments(prompt)
        params: JSONObject = {"name": prompt["name"], "arguments": arguments}
        answer = await context.client.request("prompts/get", params)
        frames += answer.frames
        if answer.is_error and not arguments:  # generated arguments may be unsuitable
            name = shown(prompt["name"])
            return remarked(f"prompt {name} is listed and cannot be fetched: {answer.refusal}", answer.frames)
    return passed(f"{len(prompts)} fetched", tuple(frames))


def _prompt_arguments(prompt: JSONObject) -> JSONObject:
    """Return a value for each required argument of a prompt."""
    arguments = prompt.get("arguments")
    values: JSONObject = {}
    for argument in arguments if isinstance(arguments, list) else ():
        if member(argument, "required") is True and (name := text_member(argument, "name")) is not None:
            values[name] = "example"
    return values


async def _complete(context: ProbeContext) -> Conclusion:
    completable = await _completable_argument(context)
    if completable is None:
        raise Skipped("no prompt and no resource template has an argument that could be completed")
    reference, argument = completable
    params: JSON = {"ref": reference, "argument": {"name": argument, "value": ""}}
    answer = await context.client.request("completion/complete", params)
    if answer.is_error:
        name = shown(reference.get("name", reference.get("uri")))
        return remarked(f"completion of {name} is refused: {answer.refusal}", answer.frames)
    return passed("answered", answer.frames)


async def _completable_argument(context: ProbeContext) -> tuple[JSONObject, str] | None:
    """Return a reference to a prompt or a resource template, and the name of one of its arguments.

    Return ``None`` if nothing has an argument.

    Raises:
        As ``list_items``.
    """
    if context.declares("prompts"):
        await ensure_prompts_listed(context)
    for prompt in named_prompts(context):
        arguments = prompt.get("arguments")
        for argument in arguments if isinstance(arguments, list) else ():
            if (name := text_member(argument, "name")) is not None:
                return {"type": "ref/prompt", "name": prompt["name"]}, name
    if context.declares("resources"):
        await ensure_resources_listed(context)
    for template in context.inventory.templates:
        if isinstance(uri := template.get("uriTemplate"), str) and (variable := _VARIABLE.search(uri)):
            return {"type": "ref/resource", "uri": uri}, variable[1]
    return None


async def _set_log_level(context: ProbeContext) -> Conclusion:
    answer = await context.client.request("logging/setLevel", {"level": "debug"})
    if answer.is_error:
        return remarked(f"logging is declared and refused: {answer.refusal}", answer.frames)
    return passed("accepted", answer.frames)


def _counted(items: list[JSONObject], noun: str) -> str:
    """Return the number of items and the names of at most eight: ``2 tools: echo, add``."""
    names = [str(item.get("name", item.get("uri", "?"))) for item in items]
    first_names = f": {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else ""
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}{first_names}"


_LIST_RULES: Final = ("RPC-010",)
"""The rules that a server breaks if it refuses a list of a feature that it declares."""

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
"""The probes that run even if the user did not choose them, because the other probes need a session."""

PROBES: Final = (
    *ALWAYS,
    Probe("ping", "lifecycle", "ping is answered.", _ping, rules=("LIFE-004",), revisions=STATEFUL),
    Probe("list-tools", "tools", "tools/list, all pages.", _list_tools, _LIST_RULES, needs=("tools",)),
    Probe("call-tools", "tools", "Tools that only read are called.", _call_tools, needs=("tools",)),
    Probe(
        "list-resources",
        "resources",
        "resources/list, all pages.",
        _list_resources,
        _LIST_RULES,
        needs=("resources",),
    ),
    Probe(
        "list-resource-templates",
        "resources",
        "resources/templates/list, all pages.",
        _list_templates,
        _LIST_RULES,
        needs=("resources",),
    ),
    Probe(
        "read-resources", "resources", "A listed resource can be read.", _read_resources, needs=("resources",)
    ),
    Probe(
        "list-prompts", "prompts", "prompts/list, all pages.", _list_prompts, _LIST_RULES, needs=("prompts",)
    ),
    Probe("get-prompts", "prompts", "A listed prompt can be fetched.", _get_prompts, needs=("prompts",)),
    Probe("complete", "completion", "An argument is completed.", _complete, needs=("completions",)),
    Probe(
        "set-log-level",
        "logging",
        "logging/setLevel is accepted.",
        _set_log_level,
        needs=("logging",),
        revisions=STATEFUL,
    ),
)
