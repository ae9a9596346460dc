"""A file of pins: the definitions of the tools that a user has approved.

    {
      "pins": 1,
      "servers": {
        "files": {
          "instructions": null,
          "revisions": ["2025-11-25"],
          "tools": {
            "read": {
              "definition": {"description": "Read a file", "inputSchema": {"type": "object"}, "name": "read"},
              "sha256": "..."
            }
          }
        }
      }
    }

Members are sorted and each is on its own line, so that changing one member changes one line. ``sha256`` is
the hash of the definition in canonical form (RFC 8785), so ``read`` notices a definition that was edited.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from mcpproxy.base import files
from mcpproxy.base.style import count
from mcpproxy.base.visible import visible_lines
from mcpproxy.checks.engine.dispatch import Dispatch
from mcpproxy.checks.opt_in.pins import Approved, Pins, SeenTools, collector
from mcpproxy.checks.server import tools
from mcpproxy.checks.server.definitions import (
    FIELDS,
    changes,
    definition,
    describe_difference,
    digest,
    visible,
)
from mcpproxy.errors import TraceError, UsageError
from mcpproxy.observer import Observer
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.protocol.wording import shown
from mcpproxy.ruleset import catalogue
from mcpproxy.session.frame import Finding
from mcpproxy.session.masked_values import holds_mask
from mcpproxy.trace.reader import Trace

VERSION: Final = 1

_LIMIT_BYTES: Final = 64 << 20


@dataclass(slots=True)
class CollectedPins:
    """Pins from one or more recordings.

    ``partial`` are the servers of which no complete list of tools was seen. ``contradictions`` are lines for
    people, one for each tool or text that the recordings define in two ways.
    """

    pins: dict[str, Approved] = field(default_factory=dict[str, Approved])
    partial: set[str] = field(default_factory=set[str])
    contradictions: list[str] = field(default_factory=list[str])

    def add(self, other: "CollectedPins", where: str) -> None:
        """Add the pins of another recording or frame; ``where`` names it in contradictions."""
        for server, approved in other.pins.items():
            known = self.pins.get(server)
            if known is None:
                self.pins[server] = approved
                self.partial |= {server} & other.partial
                continue
            if server not in other.partial:
                self.partial.discard(server)
            self.contradictions += (f"{where}: {line}" for line in _contradictions(server, known, approved))
            self.pins[server] = _merged(known, approved)
        self.contradictions += other.contradictions


def collect_pins(trace: Trace) -> CollectedPins:
    """Return the pins of a recording: the tools on all pages of all lists, and the instructions.

    Raises:
        TraceError: the recording cannot be read or lists no tools, the name of a server was not seen, or a
            definition is masked.
    """
    answers: list[SeenTools] = []
    # ``collector`` comes first: it must see a page before ``tools.FAMILY`` adds the page to its state.
    dispatch = Dispatch([collector(answers.append), tools.FAMILY])
    observer = Observer(catalogue.load(), dispatch, joined_late=trace.joined_late, redacted=trace.redacted)
    for event in trace.events():
        if not isinstance(event, Finding):
            observer.observe(event)
    pages = [answer for answer in answers if answer.tools is not None]
    if not pages:
        raise TraceError(
            trace.path, None, "no answer to tools/list in it", "record a session that lists its tools"
        )
    collected_pins = CollectedPins()
    for answer in answers:
        if answer.server is None:
            if answer.tools is None:
                continue
            fact = f"frame {answer.seq} lists the tools of a server whose name was not seen"
            raise TraceError(trace.path, None, fact, "record a session from its start")
        collected_pins.add(_pins_in(answer, answer.server, trace.path), f"frame {answer.seq}")
    with_list = {page.server for page in pages if page.server is not None}
    with_whole_list = {page.server for page in pages if page.ends_whole_list}
    collected_pins.partial = with_list - with_whole_list
    collected_pins.pins = {
        server: pins for server, pins in collected_pins.pins.items() if server in with_list
    }
    return collected_pins


def _pins_in(answer: SeenTools, server: str, path: str) -> CollectedPins:
    """Return the pins in one answer of ``server``; ``path`` is the recording, for error messages."""
    definitions = {str(tool["name"]): definition(tool) for tool in answer.tools or ()}
    instructions = answer.instructions
    if holds_mask([*definitions.values()]) or (isinstance(instructions, str) and holds_mask(instructions)):
        fact = f"a part of frame {answer.seq} is masked"
        raise TraceError(path, None, fact, "pin from the recording before it was redacted")
    pins = CollectedPins({server: Approved(answer.revisions, instructions, definitions)})
    names = {
        str(tool["name"]) for tool in answer.tools or () if definition(tool) != definitions[str(tool["name"])]
    }
    for name in sorted(names):
        fact = f"{_server(server)} has two tools called {visible(shown(name))}"
        pins.contradictions.append(f"frame {answer.seq}: {fact}")
    return pins


def _merged(one: Approved, other: Approved) -> Approved:
    """Return the tools of both; of a tool in both, the later fields replace the earlier ones."""
    merged = dict(one.tools)
    for name, tool in other.tools.items():
        merged[name] = {**merged.get(name, {}), **tool}
    revisions = tuple(r for r in REVISIONS if r in {*one.revisions, *other.revisions})
    instructions = other.instructions if one.instructions is ABSENT else one.instructions
    return Approved(revisions, instructions, merged)


def _contradictions(server: str, one: Approved, other: Approved) -> list[str]:
    """Return a line for each tool or text that differs; a tool that is in only one of them does not."""
    names = one.tools.keys() & other.tools.keys()
    was, now = (replace(side, tools={name: side.tools[name] for name in names}) for side in (one, other))
    return differences({server: was}, {server: now})


def differences(was: Pins, now: Pins, partial: frozenset[str] = frozenset()) -> list[str]:
    """Return one line for each difference between ``was`` and ``now``.

    Servers that are not in ``now`` are ignored, and so are tools that a ``partial`` list lacks.
    """
    lines: list[str] = []
    for server, approved in sorted(now.items()):
        before, place = was.get(server), _server(server)
        if before is None:
            lines.append(f"{place} is new, with {count(len(approved.tools), 'tool')}")
            continue
        instructions = _changed_instructions(before.instructions, approved.instructions)
        lines += (f"{place}: {change}" for change in instructions)
        for name, tool in sorted(approved.tools.items()):
            known = before.tools.get(name)
            if known is None:
                lines.append(f"{place}: tool {visible(shown(name))} is new")
                continue
            lines += (
                f"{place}: tool {visible(shown(name))}: {change.field} {change.what}"
                for change in changes(known, tool, approved.revisions, before.revisions)
            )
        if server not in partial:
            gone = sorted(before.tools.keys() - approved.tools.keys())
            lines += (f"{place}: tool {visible(shown(name))} is gone" for name in gone)
    return lines


def _changed_instructions(was: "str | Absent | None", now: "str | Absent | None") -> Iterator[str]:
    if was != now and not isinstance(was, Absent) and not isinstance(now, Absent):
        _, what = describe_difference(ABSENT if was is None else was, ABSENT if now is None else now)
        yield f"instructions {what}"


def _server(name: str) -> str:
    return f"server {visible(shown(name))}" if name else "the server without a name"


def updated(was: Pins, now: Pins, partial: frozenset[str] = frozenset()) -> Pins:
    """Return ``was`` with the servers in ``now`` replaced; tools that a ``partial`` list lacks are kept."""
    pins = dict(was)
    for server, approved in now.items():
        before = was.get(server)
        if before is not None and server in partial:
            approved = replace(approved, tools={**before.tools, **approved.tools})
        if before is not None and approved.instructions is ABSENT:
            approved = replace(approved, instructions=before.instructions)
        pins[server] = approved
    return pins


def dumps(pins: Pins) -> str:
    """Return the text of a file of pins. Invisible characters are written as escapes.

    Raises:
        UsageError: a definition is nested too deeply to be read back.
    """
    servers: JSONObject = {name: _as_object(approved) for name, approved in pins.items()}
    document: JSONObject = {"pins": VERSION, "servers": servers}
    try:
        text = json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True)
    except RecursionError:
        raise UsageError(
            "pin", "a definition is nested too deeply to be written", "look at the server's tools"
        ) from None
    return visible_lines(text) + "\n"


def _as_object(approved: Approved) -> JSONObject:
    pinned: JSONObject = {
        name: {"definition": tool, "sha256": digest(tool)} for name, tool in approved.tools.items()
    }
    server: JSONObject = {"revisions": [*approved.revisions], "tools": pinned}
    if not isinstance(approved.instructions, Absent):
        server["instructions"] = approved.instructions
    return server


def read(path: str) -> Pins:
    """Return the pins in a file.

    Raises:
        UsageError: it cannot be read, is not a file of pins, or was edited.
    """
    try:
        text = files.read(path, _LIMIT_BYTES, follows=True).decode("utf-8")
    except OSError as error:
        fact = (error.strerror or "unreadable").lower()
        raise UsageError(path, fact, "write one with mcpproxy pin") from None
    except UnicodeDecodeError:
        raise _not_a_pin_file(path, "it is not UTF-8") from None
    return loads(text, path)


def loads(text: str, path: str) -> Pins:
    """Return the pins in the text of a file; ``path`` is its path, for error messages.

    Raises:
        UsageError: it is not the text of a file of pins, or was edited.
    """
    try:
        document: JSON = json.loads(text)
    except (ValueError, RecursionError):
        raise _not_a_pin_file(path, "it is not JSON") from None
    if not isinstance(document, dict) or "pins" not in document:
        raise _not_a_pin_file(path, "it has no member pins")
    if document["pins"] != VERSION:
        fact = f"it is of version {shown(document['pins'])}, and this mcpproxy reads {VERSION}"
        raise UsageError(path, fact, "please update mcpproxy")
    servers = document.get("servers")
    if not isinstance(servers, dict):
        raise _not_a_pin_file(path, "it has no servers")
    return {name: _approved(path, name, server) for name, server in servers.items()}


def _approved(path: str, name: str, server: JSON) -> Approved:
    pinned = server.get("tools") if isinstance(server, dict) else None
    revisions = server.get("revisions") if isinstance(server, dict) else None
    instructions = server.get("instructions", ABSENT) if isinstance(server, dict) else 0
    if not isinstance(pinned, dict) or not isinstance(revisions, list):
        raise _not_a_pin_file(path, f"{_server(name)} has no tools or no revisions in it")
    if not isinstance(instructions, str | Absent | None):
        raise _not_a_pin_file(path, f"the instructions of {_server(name)} are not a text")
    return Approved(
        tuple(str(revision) for revision in revisions),
        instructions,
        {tool: _definition(path, tool, pin) for tool, pin in pinned.items()},
    )


def _definition(path: str, name: str, pin: JSON) -> JSONObject:
    found = pin.get("definition") if isinstance(pin, dict) else None
    if not isinstance(pin, dict) or not isinstance(found, dict) or found.keys() - FIELDS.keys():
        raise _not_a_pin_file(
            path, f"tool {visible(shown(name))} has no definition, or one with other members than a pin has"
        )
    if pin.get("sha256") != digest(found) or found.get("name") != name:
        fact = f"the definition of tool {visible(shown(name))} does not match its hash: it was edited"
        raise UsageError(path, fact, "restore the file, or delete it and pin again")
    return found


def _not_a_pin_file(path: str, why: str) -> UsageError:
    return UsageError(path, f"not a file of pins: {why}", "write one with mcpproxy pin")
