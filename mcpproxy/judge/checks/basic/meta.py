"""The member ``_meta``: the names of its keys, and the values of keys that other standards define.

Almost every message may have ``_meta``, and nearly all of its keys are the same few. So the result of
checking a key's name is cached.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/index#_meta
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.basic.listed_objects import listed_objects
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import ASKS, UNFAMILIAR, Check, RuleFamily
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.meta_keys import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LOG_LEVEL_KEY,
    RELATED_TASK_KEY,
    SERVER_INFO_KEY,
    SUBSCRIPTION_ID_KEY,
    VERSION_KEY,
)
from mcpproxy.protocol.revisions import is_stateless
from mcpproxy.protocol.wording import shown, token, with_article

KNOWN_KEYS: Final = frozenset(
    {
        "progressToken",
        VERSION_KEY,
        CAPABILITIES_KEY,
        CLIENT_INFO_KEY,
        SERVER_INFO_KEY,
        LOG_LEVEL_KEY,
        SUBSCRIPTION_ID_KEY,
        RELATED_TASK_KEY,
        "io.modelcontextprotocol/model-immediate-response",
        # Keys defined by the official extensions and the registry
        "io.modelcontextprotocol/tasks",
        "io.modelcontextprotocol/ui",
        "io.modelcontextprotocol/oauth-client-credentials",
        "io.modelcontextprotocol/enterprise-managed-authorization",
        "io.modelcontextprotocol.registry/official",
        "io.modelcontextprotocol.registry/publisher-provided",
    }
)
"""Keys that some revision or official extension defines.

They are accepted in every revision: a client may use newer keys before it knows the server's revision.
"""

MAX_CACHED_LENGTH: Final = 256
"""Longer keys, in characters, are checked without the cache, so that it stays small."""

RESERVED_LABELS: Final = frozenset({"modelcontextprotocol", "mcp"})
"""The labels that reserve the prefix of a key for MCP (see ``is_reserved``)."""

# A key is a name, or a prefix, a slash and a name. A prefix is labels with dots between them. A label starts
# with a letter and ends with a letter or digit. A name starts and ends with an ASCII letter or digit, or is
# empty.
_LABEL: Final = r"[^\W\d_](?:-*[^\W_])*"
_PREFIX: Final = pattern(rf"{_LABEL}(?:\.{_LABEL})*")
_NAME: Final = pattern(r"(?:[A-Za-z0-9](?:[._-]*[A-Za-z0-9])*)?")

# W3C Trace Context, sections 3.2.2 and 3.3.1; W3C Baggage, section 3.3.1.
_TRACEPARENT: Final = pattern(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_TRACESTATE_MEMBER: Final = pattern(r"[a-z0-9][a-z0-9_*/@-]{0,255}=[ -+\--<>-~]{1,256}")
_BAGGAGE_MEMBER: Final = pattern(
    r"[!#$%&'*+.^_`|~0-9A-Za-z-]++[ \t]*+=[ \t]*+[!#-+\--:<-\[\]-~]*+[ \t]*+(;.*)?"
)

MAX_TRACESTATE_MEMBERS: Final = 32
"""How many members a tracestate may have (W3C Trace Context, section 3.3.1)."""


def meta_of_params(context: MessageContext[Request | Notification], history: History) -> Iterable[Violation]:
    """Report faults in the ``_meta`` of a message's params (META-002, META-003, META-004, META-005)."""
    message = context.message
    params = message.params
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict):
        return ()
    capabilities = meta.get(CAPABILITIES_KEY)
    if meta.keys() <= KNOWN_KEYS and not (isinstance(capabilities, dict) and "extensions" in capabilities):
        return ()
    return _meta_of_params(context, meta, context.at + "/params/_meta")


def _meta_of_params(context: MessageContext, meta: JSONObject, pointer: str) -> Iterator[Violation]:
    yield from _key_faults(context, meta, pointer)
    if context.stateless:
        yield from _extension_names(context, meta.get(CAPABILITIES_KEY), pointer + token(CAPABILITIES_KEY))


def meta_of_result(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report faults in the ``_meta`` of a result and of what it lists (META-002, META-003, META-004)."""
    result = as_object(member(context.message.value, "result"))
    results = [(context.at + "/result", result)] if result else []
    for pointer, owner in (*results, *listed_objects(context)):
        meta = owner.get("_meta")
        if isinstance(meta, dict) and not meta.keys() <= KNOWN_KEYS:
            yield from _key_faults(context, meta, pointer + "/_meta")


def _key_faults(context: MessageContext, meta: JSONObject, pointer: str) -> Iterator[Violation]:
    sender, candidates = context.sender, context.candidates
    for key, value in meta.items():
        if key in KNOWN_KEYS:
            continue
        if key in TRACING and is_stateless(candidates):
            if fault := TRACING[key](value):
                problem = f"{sender} sent {with_article(key)} that {fault}: {shown(value)}"
                yield Violation("META-004", "R-208", problem, pointer=pointer + token(key))
        elif fault := key_fault(key):
            yield Violation(
                "META-002",
                "R-206",
                f"{sender} sent the _meta key {shown(key)}, {fault}",
                pointer=pointer + token(key),
            )
        elif all(is_reserved(key, revision) for revision in candidates):
            problem = f"{sender} sent the _meta key {shown(key)}, which MCP reserves and does not define"
            yield Violation("META-003", "R-207", problem, pointer=pointer + token(key))


def server_extensions(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report extension names without a valid prefix in a server's capabilities (META-005)."""
    if not context.stateless:
        return ()
    capabilities = member(context.message.value, "result", "capabilities")
    return _extension_names(context, capabilities, context.at + "/result/capabilities")


def _extension_names(context: MessageContext, capabilities: JSON, pointer: str) -> Iterator[Violation]:
    for name in as_object(member(capabilities, "extensions")) or ():
        fault = key_fault(name) if "/" in name else "which has no prefix"
        if fault:
            problem = f"{context.sender} declared the extension {shown(name)}, {fault}"
            yield Violation("META-005", "R-209", problem, pointer=f"{pointer}/extensions{token(name)}")


def key_fault(key: str) -> str:
    """Return what is wrong with a key, as a relative clause (``whose prefix ...``); empty if it is valid."""
    return _key_fault(key) if len(key) <= MAX_CACHED_LENGTH else _key_fault.__wrapped__(key)


@lru_cache(maxsize=1024)
def _key_fault(key: str) -> str:
    prefix, slash, name = key.partition("/") if "/" in key else ("", "", key)
    if slash and not _PREFIX.fullmatch(prefix):
        return "whose prefix is not labels of letters, digits and hyphens with dots between them"
    if _NAME.fullmatch(name):
        return ""
    return (
        "whose name does not begin and end with a letter or digit, or has other characters than . _ - inside"
    )


def is_reserved(key: str, revision: str) -> bool:
    """Whether the prefix of ``key`` is reserved for MCP in ``revision``.

    In 2025-06-18 a label of ``RESERVED_LABELS`` reserves the prefix in any place but the last (``mcp.dev/``),
    from 2025-11-25 on only in the second place (``dev.mcp/``). Older revisions are treated like 2025-11-25.
    """
    prefix, slash, _ = key.rpartition("/")
    labels = prefix.split(".") if slash else []
    if revision == "2025-06-18":
        return not RESERVED_LABELS.isdisjoint(labels[:-1])
    return len(labels) > 1 and labels[1] in RESERVED_LABELS


def _traceparent_fault(value: JSON) -> str:
    match = _TRACEPARENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return "is not version, trace id, parent id and flags in lower-case hexadecimal"
    version, trace_id, parent_id, extra_fields = match.groups()
    if version == "ff" or (version == "00" and extra_fields):
        return "has a version that does not allow this form"
    return "has an id that is all zeros" if not trace_id.strip("0") or not parent_id.strip("0") else ""


def _tracestate_fault(value: JSON) -> str:
    members = _list_members(value)
    if members is None or not all(_TRACESTATE_MEMBER.fullmatch(item) for item in members):
        return "is not a list of key=value"
    return f"has more than {MAX_TRACESTATE_MEMBERS} members" if len(members) > MAX_TRACESTATE_MEMBERS else ""


def _baggage_fault(value: JSON) -> str:
    members = _list_members(value)
    is_valid = members is not None and all(map(_BAGGAGE_MEMBER.fullmatch, members))
    return "" if is_valid else "is not a list of key=value"


def _list_members(value: JSON) -> list[str] | None:
    """Return the members of a comma-separated list without empty ones; ``None`` if it is not a string."""
    return [m for part in value.split(",") if (m := part.strip(" \t"))] if isinstance(value, str) else None


TRACING: Final[Mapping[str, Callable[[JSON], str]]] = {
    "traceparent": _traceparent_fault,
    "tracestate": _tracestate_fault,
    "baggage": _baggage_fault,
}
"""The keys whose values W3C standards define, each with a function that says what is wrong with a value.

MCP has these keys from 2026-07-28 on.
"""

META: Final = (b'"_meta"',)

FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("META-002", "META-003", "META-004", "META-005"),
            meta_of_params,
            ASKS,
            members=("_meta",),
            given=UNFAMILIAR,  # not if an equal ``_meta`` was found correct before in this session
        ),
        Check(("META-002", "META-003", "META-004"), meta_of_result, (Response,), mentions=META),
        Check(("META-005",), server_extensions, (Response,), ("server/discover",)),
    ),
)
