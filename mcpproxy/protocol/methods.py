"""Which methods exist, who sends them, and which capability must have been declared first.

The two tables are text, so that they can be compared with the specification line by line. A row is valid
from the revision ``since`` up to, not including, ``until``; ``-`` means no limit. If a method has no row for
a revision, the method does not exist in that revision.

Source: the unions ``ClientRequest``, ``ServerRequest``, ``ClientNotification`` and
``ServerNotification`` of each revision's schema; the Capabilities section of each feature's page.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject
from mcpproxy.protocol.revisions import REVISIONS, STATELESS, span

Senders: TypeAlias = Literal["client", "server", "both"]
Kind: TypeAlias = Literal["request", "notification"]
Declarer: TypeAlias = Literal["client", "server", "receiver", "sender"]
Condition: TypeAlias = Literal["always", "task", "tools", "context", "form", "url"]


@slotted(frozen=True)
class Method:
    """A method as defined by one revision. ``sender`` is the peer that may send it."""

    name: str
    sender: Senders
    kind: Kind


@slotted(frozen=True)
class Need:
    """A capability that a method requires.

    ``declared_by`` is the peer that must declare the capability: client or server or, for methods in both
    directions, the receiver or sender of the message. ``path`` is a path in that peer's capabilities, such
    as ``resources.subscribe``. The need exists only for params that meet ``condition``; see ``applies``.
    """

    declared_by: Declarer
    path: str
    condition: Condition = "always"


_METHODS: Final = """
method                                    sender  since       until

initialize                                client  -           2026-07-28
notifications/initialized                 client  -           2026-07-28
server/discover                           client  2026-07-28  -
ping                                      both    -           2026-07-28
notifications/cancelled                   both    -           -
notifications/progress                    both    -           2026-07-28
notifications/progress                    server  2026-07-28  -

tools/list                                client  -           -
tools/call                                client  -           -
notifications/tools/list_changed          server  -           -

resources/list                            client  -           -
resources/templates/list                  client  -           -
resources/read                            client  -           -
resources/subscribe                       client  -           2026-07-28
resources/unsubscribe                     client  -           2026-07-28
notifications/resources/list_changed      server  -           -
notifications/resources/updated           server  -           -

prompts/list                              client  -           -
prompts/get                               client  -           -
notifications/prompts/list_changed        server  -           -

completion/complete                       client  -           -
logging/setLevel                          client  -           2026-07-28
notifications/message                     server  -           -

roots/list                                server  -           2026-07-28
notifications/roots/list_changed          client  -           2026-07-28
sampling/createMessage                    server  -           2026-07-28
elicitation/create                        server  2025-06-18  2026-07-28
notifications/elicitation/complete        server  2025-11-25  2026-07-28

tasks/get                                 both    2025-11-25  2026-07-28
tasks/result                              both    2025-11-25  2026-07-28
tasks/list                                both    2025-11-25  2026-07-28
tasks/cancel                              both    2025-11-25  2026-07-28
notifications/tasks/status                both    2025-11-25  2026-07-28

subscriptions/listen                      client  2026-07-28  -
notifications/subscriptions/acknowledged  server  2026-07-28  -
"""

# A row with a condition ("task" in "tools/call?task") applies only to params that meet it (see _CONDITIONS).
# From 2026-07-28 on, a server makes its requests as input requests inside a result. They need the same
# capabilities as in 2025-11-25, but none for tasks, so the rows for these have no "until".
_NEEDS: Final = """
method                                declarer  path                                   since       until

tools/list                            server    tools                                  -           -
tools/call                            server    tools                                  -           -
tools/call?task                       server    tasks.requests.tools.call              2025-11-25  2026-07-28
notifications/tools/list_changed      server    tools.listChanged                      -           -

resources/list                        server    resources                              -           -
resources/templates/list              server    resources                              -           -
resources/read                        server    resources                              -           -
resources/subscribe                   server    resources.subscribe                    -           2026-07-28
resources/unsubscribe                 server    resources.subscribe                    -           2026-07-28
notifications/resources/list_changed  server    resources.listChanged                  -           -
notifications/resources/updated       server    resources.subscribe                    -           -

prompts/list                          server    prompts                                -           -
prompts/get                           server    prompts                                -           -
notifications/prompts/list_changed    server    prompts.listChanged                    -           -

completion/complete                   server    completions                            2025-03-26  -
logging/setLevel                      server    logging                                -           2026-07-28
notifications/message                 server    logging                                -           -

roots/list                            client    roots                                  -           -
notifications/roots/list_changed      client    roots.listChanged                      -           2026-07-28
sampling/createMessage                client    sampling                               -           -
sampling/createMessage?tools          client    sampling.tools                         2025-11-25  -
sampling/createMessage?context        client    sampling.context                       2025-11-25  -
sampling/createMessage?task           client    tasks.requests.sampling.createMessage  2025-11-25  2026-07-28
elicitation/create                    client    elicitation                            2025-06-18  2025-11-25
elicitation/create?form               client    elicitation.form                       2025-11-25  -
elicitation/create?url                client    elicitation.url                        2025-11-25  -
elicitation/create?task               client    tasks.requests.elicitation.create      2025-11-25  2026-07-28
notifications/elicitation/complete    client    elicitation.url                        2025-11-25  2026-07-28

tasks/get                             receiver  tasks                                  2025-11-25  2026-07-28
tasks/result                          receiver  tasks                                  2025-11-25  2026-07-28
tasks/list                            receiver  tasks.list                             2025-11-25  2026-07-28
tasks/cancel                          receiver  tasks.cancel                           2025-11-25  2026-07-28
notifications/tasks/status            sender    tasks                                  2025-11-25  2026-07-28
"""

INPUT_REQUESTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    dict.fromkeys(STATELESS, ("roots/list", "sampling/createMessage", "elicitation/create"))
)
"""By revision: the methods of the requests that a server makes inside a result, not as messages."""

OPENINGS: Final = ("initialize", "server/discover")
"""Requests that open a session. Their results have the capabilities and the instructions of the server."""

LISTEN: Final = "subscriptions/listen"
"""Opens a stream of notifications, which ends with the answer."""
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"

SKILLS: Final = "io.modelcontextprotocol/skills"
"""The name under which peers declare the extension for skills."""

EXTENSIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "io.modelcontextprotocol/tasks": (
            "tasks/get",
            "tasks/update",
            "tasks/cancel",
            "notifications/tasks",
        ),
        SKILLS: ("skills/list", "skills/get", "resources/directory/read"),
    }
)
"""By the name under which peers declare an extension: its methods. The tables above do not have them, except
that tasks were part of revision 2025-11-25."""


@cache
def extension_methods() -> frozenset[str]:
    """Return the methods of all known extensions."""
    return frozenset(name for names in EXTENSIONS.values() for name in names)


def defined(method: str, revision: str) -> Method | None:
    """Return ``method`` as ``revision`` defines it; ``None`` if the revision does not define it."""
    return _methods().get((method, revision))


def revisions_with(method: str) -> tuple[str, ...]:
    """Return the revisions that define ``method``, oldest first; empty for an unknown name."""
    table = _methods()
    return tuple(revision for revision in REVISIONS if (method, revision) in table)


def sends(sender: str, method: str, kind: Kind, revision: str) -> bool:
    """Whether ``revision`` lets ``sender`` send ``method`` as a message of this kind."""
    definition = _methods().get((method, revision))
    return definition is not None and definition.kind == kind and definition.sender in (sender, "both")


@lru_cache(maxsize=4096)  # The size is limited because peers choose the method names.
def sends_in_any(sender: str, method: str, kind: Kind, revisions: tuple[str, ...]) -> bool:
    """Whether one of ``revisions`` lets ``sender`` send ``method`` as a message of this kind."""
    return any(sends(sender, method, kind, revision) for revision in revisions)


def method_names(*revisions: str) -> tuple[str, ...]:
    """Return every method that at least one of ``revisions`` defines."""
    return tuple(dict.fromkeys(name for name, revision in _methods() if revision in revisions))


def kind_of(method: str) -> Kind:
    """Return whether messages with this method are requests or notifications, whatever the revision."""
    return "notification" if method.startswith("notifications/") else "request"


def needs(method: str, revision: str) -> tuple[Need, ...]:
    """Return the capabilities that ``method`` needs in ``revision``; empty if it needs none."""
    return _needs().get((method, revision), ())


def applies(need: Need, params: JSON) -> bool:
    """Whether ``need`` applies to a message with these ``params``, which may be any value."""
    return _CONDITIONS[need.condition](params if isinstance(params, dict) else {})


def first_need(needs: tuple[Need, ...], params: "JSON | Absent") -> Need | None:
    """Return the first of ``needs`` that applies to a message with ``params``; ``None`` if none does."""
    for need in needs:
        # The first test only saves time: most needs have no condition.
        if need.condition == "always" or applies(need, None if params is ABSENT else params):
            return need
    return None


def declares(capabilities: JSONObject, path: str) -> bool:
    """Whether ``capabilities`` has the capability at ``path``.

    A flag (``_FLAGS``) counts only if it is ``true``, any other capability unless it is ``false``. An empty
    ``elicitation`` object means form mode.
    """
    if path == "elicitation.form" and capabilities.get("elicitation") == {}:
        return True
    value: JSON = capabilities
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    # A peer that writes null or true instead of an object has declared the capability, in the wrong shape.
    return value is True if path.endswith(_FLAGS) else value is not False


_FLAGS: Final = (".listChanged", "resources.subscribe")
"""The ends of the paths of capabilities that are declared as ``true``. All others are declared as objects."""

_CONDITIONS: Final[Mapping[Condition, Callable[[JSONObject], bool]]] = MappingProxyType(
    {
        "always": lambda _: True,
        "task": lambda params: "task" in params,
        "tools": lambda params: "tools" in params or "toolChoice" in params,
        "context": lambda params: params.get("includeContext") in ("thisServer", "allServers"),
        "form": lambda params: params.get("mode", "form") == "form",
        "url": lambda params: params.get("mode") == "url",
    }
)


@cache
def _methods() -> Mapping[tuple[str, str], Method]:
    table: dict[tuple[str, str], Method] = {}
    for row in table_rows(_METHODS):
        name = row["method"]
        for revision in span(row["since"], row["until"]):
            table[name, revision] = Method(name, cast("Senders", row["sender"]), kind_of(name))
    return table


@cache
def _needs() -> Mapping[tuple[str, str], tuple[Need, ...]]:
    table: dict[tuple[str, str], tuple[Need, ...]] = {}
    for row in table_rows(_NEEDS):
        name, _, condition = row["method"].partition("?")
        need = Need(cast("Declarer", row["declarer"]), row["path"], cast("Condition", condition or "always"))
        for revision in span(row["since"], row["until"]):
            table[name, revision] = (*table.get((name, revision), ()), need)
    return table


def table_rows(table: str) -> list[dict[str, str]]:
    """Return the rows of a text table, each as a dict from column name (in the first line) to word."""
    header, *rows = [line.split() for line in table.splitlines() if line]
    return [dict(zip(header, row, strict=True)) for row in rows]
