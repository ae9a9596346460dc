"""The Skills extension of the stateless revisions: skills that a server lists, and the files in them.

A skill is a directory with a file SKILL.md. Its *entry* in a result has its URI, its frontmatter (the fields
at the beginning of SKILL.md) and, in the member ``resources``, the URI, digest and size of each file: the
*manifest*. ``skill_entries`` checks entries, and ``skill_files`` compares them with the files that the client
reads.

The extension is specified for 2026-07-28 and later. Nothing is concluded about a server that has not declared
it in this recording, because its methods may be those of another extension, or of a draft.

Source: https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.judge.checks.server.skill_entries import (
    DIRECTORY,
    ENTRIES,
    GET,
    ends_in_skill_file,
    is_final,
    skill_entries,
)
from mcpproxy.judge.checks.server.skill_files import (
    SkillFiles,
    digest_given_again,
    lost_skill,
    read_file,
    remember_change,
    remember_entries,
    remember_read,
)
from mcpproxy.judge.checks.stateless.discovery import unlike_discovered
from mcpproxy.judge.checks.stateless.servers import declared_settings, server_of, settings_of, strings_in
from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.error_message import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, member, target_of, text_member
from mcpproxy.protocol.methods import EXTENSIONS, SKILLS, declares
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.protocol.wording import kind, shown, token

_METHODS: Final = EXTENSIONS[SKILLS]
"""The methods of the extension."""

_DIRECTORY_TYPE: Final = "inode/directory"
"""The mimeType of a directory."""


# What the server declares


def faulty_declaration(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a server that declares the extension but not resources, or with a directoryRead that is not a
    boolean (SKILL-001).
    """
    result, pointer = context.message.result, context.at + "/result/capabilities"
    capabilities = as_object(member(result, "capabilities"))
    is_stateless = any(version in STATELESS for version in strings_in(member(result, "supportedVersions")))
    settings = settings_of(SKILLS, capabilities) if capabilities is not None and is_stateless else None
    if capabilities is None or settings is None:
        return
    if not declares(capabilities, "resources"):
        problem = f"server declared {SKILLS}, but not resources"
        yield Violation("SKILL-001", "R-285", problem, pointer=pointer)
    reads_directories = settings.get("directoryRead", False)
    if not isinstance(reads_directories, bool):
        problem = f"server declared {SKILLS} with {shown(reads_directories)} for directoryRead, not a boolean"
        pointer += f"/extensions{token(SKILLS)}/directoryRead"
        yield Violation("SKILL-001", "R-286", problem, pointer=pointer)


def unserved_method(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a server that declares the extension, but does not know a method of it (SKILL-002)."""
    request, settings = context.answers, declared_settings(SKILLS, context, history)
    if request is None or settings is None:
        return ()
    if member(as_object(context.message.error), "code") != METHOD_NOT_FOUND:
        return ()
    if request.method == DIRECTORY and settings.get("directoryRead") is not True:
        return ()
    discovered = server_of(history).discovered
    assert discovered is not None
    declared = f"{SKILLS} with directoryRead" if request.method == DIRECTORY else SKILLS
    problem = f"server declared {declared} in frame {discovered.seq}, but does not know {request.method}"
    return (unlike_discovered(("SKILL-002", "R-287"), problem, "/error/code", context, discovered),)


def undeclared_request(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a request for skills or directories to a server that does not declare them (SKILL-003).

    Over HTTP, clients with equal credentials look like one, and one of them may know a later declaration. So
    only requests on the connection of the declaration are judged. Even there the finding is a warning only,
    because a gateway uses one connection for many clients.
    """
    discovered, method = server_of(history).discovered, context.message.method
    if not context.stateless or discovered is None:
        return ()
    if history.in_both_eras or history.has_gap or history.may_lack_messages:
        return ()
    if history.over_http and discovered.connection != context.frame.connection:
        return ()
    settings = settings_of(SKILLS, discovered.capabilities)
    if method == DIRECTORY:
        requirement, undeclared = ("SKILL-003", "R-288"), "directoryRead: true"
        is_declared = settings is not None and settings.get("directoryRead") is True
    else:
        requirement, undeclared, is_declared = ("SKILL-003", "R-289"), SKILLS, settings is not None
    if is_declared:
        return ()
    problem = f"client sent {method}, but the server does not declare {undeclared} in frame {discovered.seq}"
    return (
        Violation(
            *requirement,
            problem,
            pointer=context.at + "/method",
            related=(discovered.seq,),
            at_most="warning" if history.over_http else None,
        ),
    )


# Requests, and their refusals


def malformed_request(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a skills/get without the URI of a SKILL.md, or a directory read without a URI (SKILL-014).

    A client may ask for any URI that the server has listed. If a listed URI is not that of a SKILL.md,
    SKILL-006 reports the server.
    """
    if declared_settings(SKILLS, context, history) is None:
        return ()
    method = context.message.method
    uri = target_of(method, context.message.params)
    pointer = context.at + "/params" + ("" if uri is None else "/uri")
    if method == DIRECTORY and uri is None:
        problem = f"client sent {method} without the URI of a directory"
        return (Violation("SKILL-014", "R-314", problem, pointer=pointer),)
    if method == GET and (uri is None or not ends_in_skill_file(uri)):
        if uri is not None and history.across_requests(SkillFiles).was_listed(history, uri):
            return ()
        named = "no URI" if uri is None else f"{shown(uri)}, which is not the URI of a SKILL.md"
        return (Violation("SKILL-014", "R-313", f"client sent {method} with {named}", pointer=pointer),)
    return ()


_SAYS_UNKNOWN: Final = {
    method: pattern(
        rf"\b(unknown|no such) ({nouns})\b|\bno ({nouns}) is served\b"
        rf"|\b({nouns}):? ([^\s/]{{1,20}}://\S{{1,200}} )?(was |is |could )?"
        r"(not (be )?found|does not exist|doesn't exist)\b"
    )
    for method, nouns in ((GET, "skill|resource"), (DIRECTORY, "directory|resource"))
}
"""By method: error messages that can only mean that the requested skill or directory is unknown.

Messages with a path instead of a URI do not match: the server may lack a directory on its own disk.
"""


def wrong_refusal(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a wrong error code in the refusal of an unknown skill or directory (SKILL-012)."""
    request, error = context.answers, as_object(context.message.error)
    code, text = member(error, "code"), text_member(error, "message")
    if request is None or request.cancelled or declared_settings(SKILLS, context, history) is None:
        return ()
    # ERR-004 reports -32002, which these revisions retired.
    if (
        not isinstance(code, int)
        or code in (INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND)
        or text is None
    ):
        return ()
    if not _SAYS_UNKNOWN[request.method].search(text[:1_000].lower()):
        return ()
    problem = f"server refused {request.method} with code {code} instead of {INVALID_PARAMS}: {shown(text)}"
    requirement = ("SKILL-012", "R-309") if request.method == GET else ("SKILL-012", "R-310")
    # A warning only: nothing but the text of the error shows what is unknown.
    return (
        Violation(
            *requirement,
            problem,
            pointer=context.at + "/error/code",
            related=(request.seq,),
            at_most="warning",
        ),
    )


# Directories


def directory_listing(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a listing of a directory that is malformed, or has resources below its children (SKILL-004,
    SKILL-013).
    """
    request, result = context.answers, as_object(context.message.result)
    if request is None or result is None or declared_settings(SKILLS, context, history) is None:
        return
    if not is_final(result):
        return
    resources, pointer = result.get("resources"), context.at + "/result/resources"
    if not isinstance(resources, list):
        found = "no resources" if resources is None else f"{kind(resources)} for resources"
        problem = f"server answered {DIRECTORY} with {found} instead of an array"
        yield Violation("SKILL-004", "R-292", problem, pointer=context.at + "/result")
        return
    # The slash at the end of skill:// or file:/// is a part of the URI, and is put back.
    directory = (target_of(request.method, request.params) or "").removesuffix("/") + "/"
    for index, resource in enumerate(resources):
        yield from _resource_faults(resource, directory, f"{pointer}/{index}")


def _resource_faults(resource: JSON, directory: str, pointer: str) -> Iterator[Violation]:
    """Report a listed resource that is malformed, is deeper than a child, or is a directory whose URI ends in
    a slash.
    """
    uri, name = text_member(resource, "uri"), text_member(resource, "name")
    if uri is None or name is None:
        missing = "uri" if uri is None else "name"
        problem = f"server listed a resource of a directory without a string {missing}"
        yield Violation("SKILL-004", "R-292", problem, pointer=pointer)
    if uri is None:
        return
    # Any other URI shows nothing: in a scheme of its own, a server may name the resources of a directory in
    # any way.
    plain_uri = uri.partition("#")[0].partition("?")[0]
    if plain_uri.startswith(directory) and "/" in plain_uri[len(directory) :].rstrip("/"):
        problem = f"server listed {shown(uri)}, which is deeper than the children of {shown(directory)}"
        yield Violation("SKILL-013", "R-311", problem, pointer=pointer + "/uri")
    if uri.endswith("/") and member(resource, "mimeType") == _DIRECTORY_TYPE:
        problem = f"server listed the directory {shown(uri)} with a slash at the end"
        yield Violation("SKILL-013", "R-312", problem, pointer=pointer + "/uri")


FAMILY: Final = RuleFamily(
    checks=(
        Check(("SKILL-001",), faulty_declaration, (Response,), ("server/discover",), sender=SERVER),
        Check(("SKILL-002",), unserved_method, (ErrorResponse,), _METHODS, sender=SERVER),
        Check(("SKILL-003",), undeclared_request, (Request,), _METHODS, sender=CLIENT),
        Check(
            (
                "SKILL-004",
                "SKILL-005",
                "SKILL-006",
                "SKILL-007",
                "SKILL-008",
                "SKILL-009",
            ),
            skill_entries,
            (Response,),
            ENTRIES,
            sender=SERVER,
        ),
        Check(("SKILL-010",), digest_given_again, (Response,), ENTRIES, sender=SERVER),
        Check(
            ("SKILL-010", "SKILL-011"),
            read_file,
            (Response,),
            ("resources/read",),
            sender=SERVER,
            within=STATELESS,
        ),
        Check(("SKILL-012",), wrong_refusal, (ErrorResponse,), (GET, DIRECTORY), sender=SERVER),
        Check(("SKILL-004", "SKILL-013"), directory_listing, (Response,), (DIRECTORY,), sender=SERVER),
        Check(("SKILL-014",), malformed_request, (Request,), (GET, DIRECTORY), sender=CLIENT),
        Check(("SKILL-015",), lost_skill, (ErrorResponse,), (GET,), sender=SERVER),
    ),
    updates=(
        StateUpdate(remember_entries, (Response,), ENTRIES, sender=SERVER),
        StateUpdate(remember_read, (Response,), ("resources/read",), sender=SERVER, within=STATELESS),
        StateUpdate(
            remember_change,
            (Notification,),
            ("notifications/resources/list_changed", "notifications/resources/updated"),
            sender=SERVER,
            within=STATELESS,
        ),
    ),
)
