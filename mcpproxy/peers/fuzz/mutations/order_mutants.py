"""Messages in the wrong order or about requests that do not exist, and messages with unknown methods."""

from collections.abc import Iterator, Mapping
from typing import Final

from mcpproxy.peers.fuzz.material import Material, Template
from mcpproxy.peers.fuzz.mutations.mutant import Mutant, Supply, alone, json_bytes
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, RequestId
from mcpproxy.protocol.raw_json import with_value

_NOTIFICATIONS: Final[Mapping[str, tuple[str, JSON]]] = {
    "cancel-unknown": ("notifications/cancelled", {"requestId": 987654}),
    "cancel-unknown-text": ("notifications/cancelled", {"requestId": "no such request", "reason": "x"}),
    "cancel-null": ("notifications/cancelled", {"requestId": None}),
    "cancel-nothing": ("notifications/cancelled", {}),
    "cancel-object": ("notifications/cancelled", {"requestId": {}}),
    "progress-unknown": ("notifications/progress", {"progressToken": 987654, "progress": 1}),
    "progress-backwards": ("notifications/progress", {"progressToken": "x", "progress": -1, "total": 0}),
    "progress-nothing": ("notifications/progress", {}),
    "roots-changed": ("notifications/roots/list_changed", {}),
    "unknown-notification": ("notifications/no/such", {"x": 1}),
    "empty-notification": ("", {}),
}
"""Notifications that fit nothing in the session, by the name of the change: their method and params."""

_UNLAWFUL: Final = frozenset({"cancel-null", "cancel-nothing", "cancel-object", "progress-nothing"})
"""Notifications that do not have the form that their method requires."""

_METHODS: Final[Mapping[str, str]] = {
    "unknown-method": "no/such/method",
    "empty-method": "",
    "object-method": "__proto__",
    "notification-as-request": "notifications/initialized",
    "request-of-servers": "roots/list",
    "long-method": "m" * 5000,
}
"""Methods of requests, by the name of the change."""
_NOT_FOR_SERVERS: Final = frozenset({"notification-as-request", "request-of-servers"})
"""Changes with a method that a client must not use in a request."""

_MESSAGES: Final[Mapping[str, JSONObject]] = {
    "answer-to-nothing": {"jsonrpc": "2.0", "id": 987654, "result": {}},
    "answer-to-null": {"jsonrpc": "2.0", "id": None, "result": {}},
    "error-to-nothing": {"jsonrpc": "2.0", "id": 987654, "error": {"code": -32603, "message": "x"}},
    "error-to-null": {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "x"}},
    "answer-of-both-kinds": {
        "jsonrpc": "2.0", "id": 987654, "result": {}, "error": {"code": 1, "message": "x"},
    },
    "no-version": {"id": 987655, "method": "ping"},
    "old-version": {"jsonrpc": "1.0", "id": 987656, "method": "ping"},
    "method-is-a-number": {"jsonrpc": "2.0", "id": 987657, "method": 5},
    "method-is-null": {"jsonrpc": "2.0", "id": 987658, "method": None},
    "unknown-envelope-member": {"jsonrpc": "2.0", "id": 987659, "method": "ping", "extra": {"x": [1]}},
}  # fmt: skip
"""Messages that are not lawful at this point, by the name of the change."""


def mutants(material: Material) -> Iterator[Mutant]:
    """Yield messages out of order or about nothing, with unknown methods, and cancellations of calls."""
    for name, (method, params) in _NOTIFICATIONS.items():
        notification: JSONObject = {"jsonrpc": "2.0", "method": method, "params": params}
        yield alone(name, name, json_bytes(notification), method, is_lawful=name not in _UNLAWFUL)
    for name, message in _MESSAGES.items():
        yield alone(name, name, json_bytes(message), str(message.get("method", "")))
    for name, method in _METHODS.items():
        yield _with_method(name, method, material)
    calls = [template for template in material.templates if template.method == "tools/call"]
    for template in calls:
        yield _cancelled_call(template)
        yield _call_cancelled_twice(template)
    if material.initialize:
        yield _second_initialize(material)
        if material.initialized:
            name = "initialized-again"
            yield alone(name, name, material.initialized, "notifications/initialized")


def _with_method(name: str, method: str, material: Material) -> Mutant:
    def make(supply: Supply) -> list[FuzzStep]:
        id = supply.next_id()
        message: JSONObject = {"jsonrpc": "2.0", "id": id, "method": method}
        if material.is_stateless:
            message["params"] = {"_meta": material.meta}
        is_lawful = name not in _NOT_FOR_SERVERS
        return [FuzzStep(json_bytes(message), (id,), f"method: {name}", method, name, is_lawful=is_lawful)]

    return Mutant(name, make)


def _cancelled_call(template: Template) -> Mutant:
    """Return the change that cancels a call at once, so that it need not be answered."""

    def make(supply: Supply) -> list[FuzzStep]:
        plain = supply.plain_step(template)
        call = FuzzStep(plain.raw, (), "cancelled at once", template.label, key, plain.raw)
        return [call, _cancel_step(plain.ids[0], key)]

    key = f"{template.label} cancelled-at-once"
    return Mutant(key, make)


def _call_cancelled_twice(template: Template) -> Mutant:
    """Return the change that cancels a call twice after its answer. The specification allows that race: the
    receiver ignores it."""

    def make(supply: Supply) -> list[FuzzStep]:
        plain = supply.plain_step(template)
        return [plain, _cancel_step(plain.ids[0], key), _cancel_step(plain.ids[0], key)]

    key = f"{template.label} cancelled-after-answer"
    return Mutant(key, make)


def _cancel_step(id: RequestId, key: str) -> FuzzStep:
    params: JSONObject = {"requestId": id, "reason": "fuzz"}
    raw = json_bytes({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    return FuzzStep(raw, (), "cancels the call before", "notifications/cancelled", key)


def _second_initialize(material: Material) -> Mutant:
    def make(supply: Supply) -> list[FuzzStep]:
        id = supply.next_id()
        raw = with_value(material.initialize, ("id",), str(id).encode()) or material.initialize
        return [FuzzStep(raw, (id,), "initialize again", "initialize", "initialize-again", is_lawful=False)]

    return Mutant("initialize-again", make)
