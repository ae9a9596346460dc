"""A change that the fuzzer can make, and the source of ids, markers and plain steps for it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from mcpproxy.peers.fuzz.draws import Draws
from mcpproxy.peers.fuzz.material import Material, Template
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.raw_json import with_value

Position = Literal["inside", "before", "opening"]
"""When the steps of a change are sent: inside an open session, before the handshake, or in place of it."""


class Supply:
    """Supplies ids and markers, each only once. The markers depend on ``draws``.

    A marker is a text that is sent in one request only (``steps.MARKER``).
    """

    def __init__(self, draws: Draws) -> None:
        self._draws: Final = draws
        self._last_id = 100  # beyond the usual ids of a recorded handshake
        self._last_marker = 0

    def next_id(self) -> int:
        """Return an id that no other request of the session has."""
        self._last_id += 1
        return self._last_id

    def next_marker(self) -> bytes:
        """Return a marker that no other request of the run has."""
        self._last_marker += 1
        return f"mk{self._draws.digest('marker', self._last_marker)}q".encode()

    def marked_message(self, template: Template, id: int) -> bytes:
        """Return the message of ``template`` with ``id``, and with markers in place of its free texts."""
        raw = template.with_id(id)
        for place in template.texts:
            raw = with_value(raw, place, b'"' + self.next_marker() + b'"') or raw
        return raw

    def plain_step(self, template: Template) -> FuzzStep:
        """Return ``template`` as a step with markers and no other change."""
        id = self.next_id()
        ids = (id,) if template.is_request else ()
        raw = self.marked_message(template, id)
        return FuzzStep(
            raw, ids, "as recorded", template.label, is_read_only=template.is_read_only, original=raw
        )


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change. ``key`` names it: the same change of the same request has the same key in every run.

    ``make`` returns its steps; it is called again each time that the change is sent.
    """

    key: str
    make: Callable[[Supply], list[FuzzStep]]
    position: Position = "inside"

    def is_lawful(self) -> bool:
        """Whether a client may send all steps of the change."""
        return all(step.is_lawful for step in self.make(Supply(Draws(0))))


def changed(template: Template, name: str, what: str, change: Callable[[FuzzStep], FuzzStep]) -> Mutant:
    """Return the change ``name`` of one message: ``change`` makes its step from the plain step.

    ``what`` describes the change for the user.
    """
    key = f"{template.label} {name}"

    def make(supply: Supply) -> list[FuzzStep]:
        return [replace(change(supply.plain_step(template)), what=what, key=key)]

    return Mutant(key, make)


def unlawful(plain: FuzzStep, raw: bytes) -> FuzzStep:
    """Return ``plain`` with the bytes ``raw``, which a client must not send, and which need no answer."""
    return replace(plain, raw=raw, ids=(), is_lawful=False, is_read_only=False)


def alone(name: str, what: str, raw: bytes, method: str = "", *, is_lawful: bool = False) -> Mutant:
    """Return the change ``name`` that adds one message, ``raw``, which needs no answer.

    ``what`` describes it for the user, and ``method`` is its method; empty if it has none.
    """
    step = FuzzStep(raw, (), what, method, name, is_lawful=is_lawful)
    return Mutant(name, lambda _: [step])


def batch(template: Template, material: Material, length: int) -> Mutant:
    """Return the change that sends ``length`` messages of ``template`` as a batch.

    It is lawful, and has to be answered, only if ``material`` is of the revision 2025-03-26.
    """
    key = f"batch-of-{length}"
    is_lawful = material.revision == "2025-03-26"

    def make(supply: Supply) -> list[FuzzStep]:
        plain = [supply.plain_step(template) for _ in range(length)]
        raw = b"[" + b",".join(step.raw for step in plain) + b"]"
        ids = tuple(id for step in plain for id in step.ids) if is_lawful else ()
        return [FuzzStep(raw, ids, f"a batch of {length}", template.label, key, is_lawful=is_lawful)]

    return Mutant(key, make)


def probe_template(material: Material) -> Template:
    """Return the request for changes that fit any request: a simple one, such as a ping, if there is one."""
    order = ("ping", "tools/list", "server/discover", "resources/list", "prompts/list", "tools/call")
    requests = [template for template in material.templates if template.is_request]
    rank = {method: position for position, method in enumerate(order)}
    return min(requests, key=lambda template: rank.get(template.method, len(order)))


def json_bytes(value: JSON) -> bytes:
    """Return a value as JSON on one line."""
    return json.dumps(value, separators=(",", ":")).encode()
