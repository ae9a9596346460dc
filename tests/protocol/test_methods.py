"""Which methods exist in which revision, and what they rest on."""

import pytest

from mcpproxy.protocol import methods
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.methods import INPUT_REQUESTS, Condition, Kind, Method, Need
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS

MODERN = STATELESS[0]

# Counted in the schema of each revision: requests and notifications that a peer may send.
COUNTS = {
    "2024-11-05": {"client": 17, "server": 10},
    "2025-03-26": {"client": 17, "server": 10},
    "2025-06-18": {"client": 17, "server": 11},
    "2025-11-25": {"client": 22, "server": 17},
    "2026-07-28": {"client": 11, "server": 8},
}

EVERY_NAME = (
    "initialize",
    "notifications/initialized",
    "server/discover",
    "ping",
    "notifications/cancelled",
    "notifications/progress",
    "tools/list",
    "tools/call",
    "notifications/tools/list_changed",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "prompts/list",
    "prompts/get",
    "notifications/prompts/list_changed",
    "completion/complete",
    "logging/setLevel",
    "notifications/message",
    "roots/list",
    "notifications/roots/list_changed",
    "sampling/createMessage",
    "elicitation/create",
    "notifications/elicitation/complete",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
    "notifications/tasks/status",
    "subscriptions/listen",
    "notifications/subscriptions/acknowledged",
)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revision_has_as_many_methods_per_sender_as_its_schema_lists(revision: str) -> None:
    found = [m for name in EVERY_NAME if (m := methods.defined(name, revision))]
    count = {peer: sum(m.sender in (peer, "both") for m in found) for peer in ("client", "server")}
    assert count == COUNTS[revision]


def test_every_name_has_a_revision_and_other_names_have_none() -> None:
    assert all(methods.revisions_with(name) for name in EVERY_NAME)
    assert methods.revisions_with("tools/remove") == ()


@pytest.mark.parametrize(
    ("name", "revisions"),
    [
        ("initialize", STATEFUL),
        ("ping", STATEFUL),
        ("tools/call", REVISIONS),
        ("elicitation/create", ("2025-06-18", "2025-11-25")),
        ("tasks/get", ("2025-11-25",)),
        ("server/discover", STATELESS),
        ("notifications/progress", REVISIONS),
    ],
)
def test_where_a_method_is_known(name: str, revisions: tuple[str, ...]) -> None:
    assert methods.revisions_with(name) == revisions


@pytest.mark.parametrize(
    ("name", "revision", "expected"),
    [
        ("tools/list", "2024-11-05", Method("tools/list", "client", "request")),
        ("ping", "2025-06-18", Method("ping", "both", "request")),
        ("ping", MODERN, None),
        ("notifications/progress", "2025-11-25", Method("notifications/progress", "both", "notification")),
        ("notifications/progress", MODERN, Method("notifications/progress", "server", "notification")),
        ("tasks/list", "2025-11-25", Method("tasks/list", "both", "request")),
        ("tasks/list", MODERN, None),
        ("roots/list", MODERN, None),
        ("tools/list", "1999-01-01", None),
    ],
)
def test_a_method_as_a_revision_defines_it(name: str, revision: str, expected: Method | None) -> None:
    assert methods.defined(name, revision) == expected


@pytest.mark.parametrize(
    ("sender", "name", "kind", "revision", "expected"),
    [
        ("client", "tools/list", "request", "2025-11-25", True),
        ("server", "tools/list", "request", "2025-11-25", False),
        ("client", "tools/list", "notification", "2025-11-25", False),
        ("server", "ping", "request", "2025-11-25", True),
        ("client", "ping", "request", MODERN, False),
        ("client", "notifications/progress", "notification", MODERN, False),
    ],
)
def test_who_may_send_what(sender: str, name: str, kind: Kind, revision: str, expected: bool) -> None:
    assert methods.sends(sender, name, kind, revision) is expected


@pytest.mark.parametrize(
    ("name", "revision", "expected"),
    [
        ("ping", "2025-11-25", ()),
        ("completion/complete", "2024-11-05", ()),
        ("completion/complete", "2025-03-26", (Need("server", "completions"),)),
        ("resources/subscribe", "2025-06-18", (Need("server", "resources.subscribe"),)),
        ("tools/call", "2025-06-18", (Need("server", "tools"),)),
        (
            "tools/call",
            "2025-11-25",
            (Need("server", "tools"), Need("server", "tasks.requests.tools.call", "task")),
        ),
        ("elicitation/create", "2025-06-18", (Need("client", "elicitation"),)),
        (
            "elicitation/create",
            MODERN,
            (Need("client", "elicitation.form", "form"), Need("client", "elicitation.url", "url")),
        ),
        ("tasks/cancel", "2025-11-25", (Need("receiver", "tasks.cancel"),)),
        ("notifications/tasks/status", "2025-11-25", (Need("sender", "tasks"),)),
        ("notifications/roots/list_changed", MODERN, ()),
        ("tools/list", MODERN, (Need("server", "tools"),)),
        ("nothing/known", "2025-11-25", ()),
    ],
)
def test_what_a_method_needs(name: str, revision: str, expected: tuple[Need, ...]) -> None:
    assert methods.needs(name, revision) == expected


def test_input_requests_need_capabilities_but_are_not_methods() -> None:
    for name in INPUT_REQUESTS[MODERN]:
        assert methods.defined(name, MODERN) is None
        assert methods.needs(name, MODERN)


def test_an_extension_redefines_only_what_its_revision_lacks() -> None:
    for names in methods.EXTENSIONS.values():
        assert [methods.defined(name, MODERN) for name in names] == [None] * len(names)


@pytest.mark.parametrize(
    ("condition", "params", "expected"),
    [
        ("always", None, True),
        ("always", [1], True),
        ("task", {"task": {}}, True),
        ("task", {"name": "add"}, False),
        ("task", "task", False),
        ("tools", {"toolChoice": {}}, True),
        ("tools", {"tools": []}, True),
        ("tools", {}, False),
        ("context", {"includeContext": "thisServer"}, True),
        ("context", {"includeContext": "none"}, False),
        ("context", {"includeContext": ["thisServer"]}, False),
        ("form", {}, True),
        ("form", {"mode": "form"}, True),
        ("form", {"mode": "url"}, False),
        ("url", {"mode": "url"}, True),
        ("url", {}, False),
    ],
)
def test_a_need_applies_only_to_the_params_that_it_names(
    condition: Condition, params: JSON, expected: bool
) -> None:
    assert methods.applies(Need("client", "x", condition), params) is expected


@pytest.mark.parametrize(
    ("capabilities", "path", "expected"),
    [
        ({"tools": {}}, "tools", True),
        ({}, "tools", False),
        ({"tools": {}}, "tools.listChanged", False),
        ({"tools": {"listChanged": False}}, "tools.listChanged", False),
        ({"tools": {"listChanged": True}}, "tools.listChanged", True),
        ({"resources": {"subscribe": "yes"}}, "resources.subscribe", False),
        ({"resources": {"subscribe": True}}, "resources.subscribe", True),
        ({"tools": True}, "tools.listChanged", False),
        ({"logging": None}, "logging", True),
        ({"logging": False}, "logging", False),
        ({"elicitation": {}}, "elicitation.form", True),
        ({"elicitation": {}}, "elicitation.url", False),
        ({"elicitation": {"url": {}}}, "elicitation.form", False),
        ({"elicitation": {"url": {}}}, "elicitation.url", True),
        ({"tasks": {"requests": {"tools": {"call": {}}}}}, "tasks.requests.tools.call", True),
        ({"tasks": {"requests": {}}}, "tasks.requests.tools.call", False),
    ],
)
def test_declared_capabilities(capabilities: JSONObject, path: str, expected: bool) -> None:
    assert methods.declares(capabilities, path) is expected
