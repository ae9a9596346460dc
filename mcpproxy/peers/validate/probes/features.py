"""Features of servers: unknown cursors, names and levels, missing arguments, URIs with ``..``, subscriptions.

Sources: the pages below ``server/`` of each revision, in most cases their sections "Error Handling".
"""

from typing import Final

from mcpproxy.peers.validate.answers import Answer
from mcpproxy.peers.validate.errors import Skipped
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.probe import Probe, passed, remarked
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.probes.jsonrpc import harmless_method
from mcpproxy.peers.validate.probes.walk import ensure_prompts_listed, ensure_resources_listed, named_prompts
from mcpproxy.protocol.error_message import INVALID_PARAMS, RESOURCE_NOT_FOUND
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.revisions import STATEFUL, since
from mcpproxy.protocol.wording import shown

_UNKNOWN_NAME: Final = "mcpproxy-no-such-thing"
_UNKNOWN_URI: Final = "mcpproxy-nowhere://no-such-host/no-such-resource"

_START_OF_PASSWD: Final = "root:x:0:0:"
"""How the file ``/etc/passwd`` begins."""


async def _bad_cursor(context: ProbeContext) -> Conclusion:
    method = harmless_method(context)
    first = await context.client.request(method)
    if first.is_error:
        raise Skipped(f"because {method} is refused without a cursor, too: {first.refusal}")
    answer = await context.client.request(method, {"cursor": _UNKNOWN_NAME})
    frames = (*first.frames, *answer.frames)
    if answer.is_error:
        if answer.code == INVALID_PARAMS:
            return passed(f"{method} refused it with -32602", frames)
        text = f"{method} refused an unknown cursor with {shown(answer.code)}, not with -32602"
        return context.violation("PAGE-003/R-125", text, frames)
    if "nextCursor" in first.members:
        text = f"{method} has pages, and accepted an unknown cursor instead of refusing it with -32602"
        return context.violation("PAGE-003/R-125", text, frames)
    return passed(f"{method} has one page and does not look at cursors", frames)


async def _unknown_resource(context: ProbeContext) -> Conclusion:
    answer = await context.client.request("resources/read", {"uri": _UNKNOWN_URI})
    expected = INVALID_PARAMS if context.is_stateless else RESOURCE_NOT_FOUND
    if answer.is_error:
        if answer.code == expected:
            return passed(f"refused with {expected}", answer.frames)
        text = f"a resource that does not exist was refused with {shown(answer.code)}, not with {expected}"
        return context.violation("RES-004/R-158", text, answer.frames)
    if answer.members.get("contents"):
        return passed("the server has contents for every URI", answer.frames)
    text = f"a resource that does not exist was read as empty, not refused with {expected}"
    requirement = "RES-005/R-159" if context.is_stateless else "RES-004/R-158"
    return context.violation(requirement, text, answer.frames)


async def _path_traversal(context: ProbeContext) -> Conclusion:
    await ensure_resources_listed(context)
    uris = _upward_uris(context)
    if not uris:
        raise Skipped("no resource and no template has a path")
    frames: list[int] = []
    for uri in uris:
        answer = await context.client.request("resources/read", {"uri": uri})
        frames += answer.frames
        contents = answer.members.get("contents")
        for content in contents if isinstance(contents, list) else ():
            content_text = member(content, "text")
            if isinstance(content_text, str) and _START_OF_PASSWD in content_text:
                source = context.spec_url("server/resources#security-considerations")
                text = f"{uri} leads out of what is offered: it read the accounts of the machine"
                return Conclusion("failed", text, answer.frames, source=source)
    return passed(f"{len(uris)} paths upwards read nothing outside", tuple(frames))


def _upward_uris(context: ProbeContext) -> list[str]:
    """Return URIs that lead from the first resources and templates up to a file that every Unix has."""
    upwards = "../" * 12 + "etc/passwd"
    uris: list[str] = []
    for resource in context.inventory.resources[:2]:
        if isinstance(uri := resource.get("uri"), str) and "://" in uri:
            uris.append(f"{uri.rstrip('/')}/{upwards}")
    for template in context.inventory.templates[:2]:
        uri_template = template.get("uriTemplate")
        if isinstance(uri_template, str) and "{" in uri_template:
            stem = uri_template.partition("{")[0]
            uris += [stem + upwards, stem + upwards.replace("/", "%2F")]
    return uris


async def _subscribe(context: ProbeContext) -> Conclusion:
    await ensure_resources_listed(context)
    resources = context.inventory.resources
    uri = next((uri for resource in resources if isinstance(uri := resource.get("uri"), str)), None)
    if uri is None:
        raise Skipped("there are no resources")
    frames: list[int] = []
    for method in ("resources/subscribe", "resources/unsubscribe"):
        answer = await context.client.request(method, {"uri": uri})
        frames += answer.frames
        if answer.is_error:
            text = f"resources.subscribe is declared and {method} of {shown(uri)} refused: {answer.refusal}"
            return remarked(text, answer.frames)
    return passed("subscribed and unsubscribed", tuple(frames))


async def _unknown_prompt(context: ProbeContext) -> Conclusion:
    answer = await context.client.request("prompts/get", {"name": _UNKNOWN_NAME})
    return _refused_as_invalid(context, answer, "a prompt that does not exist", "PROM-003/R-163")


async def _missing_prompt_argument(context: ProbeContext) -> Conclusion:
    await ensure_prompts_listed(context)
    for prompt in named_prompts(context):
        arguments = prompt.get("arguments")
        for argument in arguments if isinstance(arguments, list) else ():
            if member(argument, "required") is True:
                answer = await context.client.request("prompts/get", {"name": prompt["name"]})
                text = f"the prompt {shown(prompt['name'])} without its required arguments"
                return _refused_as_invalid(context, answer, text, "PROM-003/R-163")
    raise Skipped("no prompt has a required argument")


async def _unknown_completion(context: ProbeContext) -> Conclusion:
    params: JSON = {
        "ref": {"type": "ref/prompt", "name": _UNKNOWN_NAME},
        "argument": {"name": "any", "value": ""},
    }
    answer = await context.client.request("completion/complete", params)
    text = "completion for a prompt that does not exist"
    return _refused_as_invalid(context, answer, text, source="server/utilities/completion#error-handling")


async def _unknown_log_level(context: ProbeContext) -> Conclusion:
    answer = await context.client.request("logging/setLevel", {"level": "loud"})
    text = 'the unknown log level "loud"'
    return _refused_as_invalid(context, answer, text, source="server/utilities/logging#error-handling")


def _refused_as_invalid(
    context: ProbeContext, answer: Answer, what: str, requirement: str = "", *, source: str = ""
) -> Conclusion:
    """Return the conclusion on a request that the server should refuse with -32602.

    ``what`` describes the request for the user. ``requirement`` is the rule and requirement that demand the
    refusal, such as ``PROM-003/R-163``. If it is empty, ``source`` is the page of the specification that
    demands the refusal, below the revision.
    """
    if answer.is_error and answer.code == INVALID_PARAMS:
        return passed("refused with -32602", answer.frames)
    message = f"{what} was {answer.outcome}, not with -32602"
    if requirement:
        return context.violation(requirement, message, answer.frames)
    return Conclusion("warning", message, answer.frames, source=context.spec_url(source))


PROBES: Final = (
    Probe(
        "bad-cursor",
        "errors",
        "An unknown cursor is refused with -32602 if there are pages.",
        _bad_cursor,
        rules=("PAGE-003",),
    ),
    Probe(
        "unknown-resource",
        "resources",
        "A resource that does not exist is refused with -32002, from 2026-07-28 on with -32602.",
        _unknown_resource,
        rules=("RES-004", "RES-005"),
        needs=("resources",),
    ),
    Probe(
        "path-traversal",
        "security",
        "A URI with a path upwards does not lead out of what the server offers.",
        _path_traversal,
        needs=("resources",),
    ),
    Probe(
        "subscribe",
        "resources",
        "A listed resource can be subscribed to, and unsubscribed from.",
        _subscribe,
        rules=("RPC-010",),
        revisions=STATEFUL,
        needs=("resources.subscribe",),
    ),
    Probe(
        "unknown-prompt",
        "prompts",
        "A prompt that does not exist is refused with -32602.",
        _unknown_prompt,
        rules=("PROM-003",),
        needs=("prompts",),
    ),
    Probe(
        "missing-prompt-argument",
        "prompts",
        "A prompt without its required arguments is refused with -32602.",
        _missing_prompt_argument,
        rules=("PROM-003",),
        needs=("prompts",),
    ),
    Probe(
        "unknown-completion",
        "completion",
        "Completion for a prompt that does not exist is refused with -32602.",
        _unknown_completion,
        revisions=since("2025-03-26"),
        needs=("completions",),
    ),
    Probe(
        "unknown-log-level",
        "logging",
        "An unknown log level is refused with -32602.",
        _unknown_log_level,
        rules=("LOG-001",),
        revisions=STATEFUL,
        needs=("logging",),
    ),
)
