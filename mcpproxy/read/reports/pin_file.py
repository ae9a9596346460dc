"""Read and write a file of pins: the definitions of the tools that a user has approved.

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

Members are sorted, and each is on its own line, even those of the definition, which is on one line above only
to save space. So if one member of a definition changes, only its line and the line of ``sha256`` change.
``sha256`` is the hash of the definition in canonical form (RFC 8785). When the file is read, the hash shows
whether a definition was edited.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from mcpproxy.base import files
from mcpproxy.base.style import count
from mcpproxy.base.visible import visible_lines
from mcpproxy.errors import TraceError, UsageError
from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.opt_in.pins import Approved, Pins, SeenTools, collector
from mcpproxy.judge.checks.server import tools
from mcpproxy.judge.checks.server.definitions import (
    FIELDS,
    changes,
    definition,
    describe_difference,
    digest,
    visible,
)
from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Finding
from mcpproxy.judge.session.masked_values import holds_mask
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.protocol.wording import shown
from mcpproxy.record.trace.reader import Trace

VERSION: Final = 1
"""The value of the member ``pins``. A file with another one is refused."""

_LIMIT_BYTES: Final = 64 << 20
"""A larger file is not read."""


@dataclass(slots=True)
class CollectedPins:
    """Pins from one or more recordings, by the name of the server.

    ``partial`` are the servers whose complete list of tools was not seen. ``contradictions`` are lines for
    people: each says how a tool, or the instructions of a server, differ between frames or recordings.
    """

    pins: dict[str, Approved] = field(default_factory=dict[str, Approved])
    partial: set[str] = field(default_factory=set[str])
    contradictions: list[str] = field(default_factory=list[str])

    def add(self, collected: "CollectedPins", where: str) -> None:
        """Add the pins of another recording or frame; ``where`` names it in contradictions."""
        contradictions = [*collected.contradictions]
        for server, approved in collected.pins.items():
            earlier = self.pins.get(server)
            if earlier is None:
                self.pins[server] = approved
                if server in collected.partial:
                    self.partial.add(server)
                continue
            if server not in collected.partial:
                self.partial.discard(server)
            contradictions += _contradictions(server, earlier, approved)
            self.pins[server] = _merged(earlier, approved)
        self.contradictions += (f"{where}: {line}" for line in contradictions)


def collect_pins(trace: Trace) -> CollectedPins:
    """Return the pins of a recording: the tools on all pages of all lists, and the instructions.

    Raises:
        TraceError: the recording cannot be read, or has no list of tools, or lacks the name of a server that
            lists tools, or has a definition or instructions that are masked.
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
            advice = "record a session from its start, with no other server at the same URL"
            raise TraceError(trace.path, None, fact, advice)
        collected_pins.add(_pins_in(answer, answer.server, trace.path), f"frame {answer.seq}")
    with_list = {page.server for page in pages if page.server is not None}
    with_whole_list = {page.server for page in pages if page.ends_whole_list}
    collected_pins.partial = with_list - with_whole_list
    collected_pins.pins = {
        server: pins for server, pins in collected_pins.pins.items() if server in with_list
    }
    return collected_pins


def _pins_in(answer: SeenTools, server: str, path: str) -> CollectedPins:
    """Return the pins in one answer of ``server``; ``path`` is the recording, for error messages.

    Raises:
        TraceError: a definition or the instructions are masked.
    """
    definitions = {str(tool["name"]): definition(tool) for tool in answer.tools or ()}
    instructions = answer.instructions
    if holds_mask([*definitions.values()]) or (isinstance(instructions, str) and holds_mask(instructions)):
        fact = f"a part of frame {answer.seq} is masked"
        raise TraceError(path, None, fact, "pin from the recording before it was redacted")
    pins = CollectedPins({server: Approved(answer.revisions, instructions, definitions)})
    # ``definitions`` has the last tool of each name.
    ambiguous_names = {
        str(tool["name"]) for tool in answer.tools or () if definition(tool) != definitions[str(tool["name"])]
    }
    for name in sorted(ambiguous_names):
        pins.contradictions.append(f"{_server_words(server)} has two tools called {visible(shown(name))}")
    return pins


def _merged(earlier: Approved, later: Approved) -> Approved:
    """Return the tools and revisions of both.

    If both have a tool, its fields in ``later`` replace those in ``earlier``. The instructions are those of
    ``earlier``, unless it does not show them.
    """
    merged = dict(earlier.tools)
    for name, tool in later.tools.items():
        merged[name] = {**merged.get(name, {}), **tool}
    revisions = tuple(r for r in REVISIONS if r in {*earlier.revisions, *later.revisions})
    instructions = later.instructions if earlier.instructions is ABSENT else earlier.instructions
    return Approved(revisions, instructions, merged)


def _contradictions(server: str, earlier: Approved, later: Approved) -> list[str]:
    """Return the differences between two pins of ``server``, without tools that only one of them has."""
    names = earlier.tools.keys() & later.tools.keys()
    old, new = (replace(side, tools={name: side.tools[name] for name in names}) for side in (earlier, later))
    return differences({server: old}, {server: new})


def differences(old: Pins, new: Pins, partial: frozenset[str] = frozenset()) -> list[str]:
    """Return one line for each difference between the pins ``old`` and ``new``.

    Servers that are not in ``new`` are ignored, and so are missing tools of a server in ``partial``, whose
    list in ``new`` is incomplete.
    """
    lines: list[str] = []
    for server, approved in sorted(new.items()):
        old_server, place = old.get(server), _server_words(server)
        if old_server is None:
            lines.append(f"{place} is new, with {count(len(approved.tools), 'tool')}")
            continue
        instructions = _changed_instructions(old_server.instructions, approved.instructions)
        lines += (f"{place}: {change}" for change in instructions)
        for name, tool in sorted(approved.tools.items()):
            old_tool = old_server.tools.get(name)
            if old_tool is None:
                lines.append(f"{place}: tool {visible(shown(name))} is new")
                continue
            lines += (
                f"{place}: tool {visible(shown(name))}: {change.field} {change.what}"
                for change in changes(old_tool, tool, approved.revisions, old_server.revisions)
            )
        if server not in partial:
            removed = sorted(old_server.tools.keys() - approved.tools.keys())
            lines += (f"{place}: tool {visible(shown(name))} is gone" for name in removed)
    return lines


def _changed_instructions(old: "str | Absent | None", new: "str | Absent | None") -> Iterator[str]:
    if old != new and not isinstance(old, Absent) and not isinstance(new, Absent):
        _, what = describe_difference(ABSENT if old is None else old, ABSENT if new is None else new)
        yield f"instructions {what}"


def _server_words(name: str) -> str:
    return f"server {visible(shown(name))}" if name else "the server without a name"


def updated(old: Pins, new: Pins, partial: frozenset[str] = frozenset()) -> Pins:
    """Return ``old`` with the servers in ``new`` replaced.

    Of a server in ``partial``, whose list is incomplete, the tools that the list lacks are kept. Instructions
    are kept if ``new`` does not show any.
    """
    pins = dict(old)
    for server, approved in new.items():
        old_server = old.get(server)
        if old_server is not None and server in partial:
            approved = replace(approved, tools={**old_server.tools, **approved.tools})
        if old_server is not None and approved.instructions is ABSENT:
            approved = replace(approved, instructions=old_server.instructions)
        pins[server] = approved
    return pins


def dumps(pins: Pins) -> str:
    """Return the text of a file of pins. Invisible characters are written as escapes.

    Raises:
        UsageError: a definition is nested too deeply to be written.
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
        UsageError: the file cannot be read, is not a file of pins of this version, or was edited.
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
        UsageError: ``text`` is not a file of pins of this version, or a definition in it was edited.
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
    pinned = member(server, "tools")
    revisions = member(server, "revisions")
    instructions = server.get("instructions", ABSENT) if isinstance(server, dict) else 0
    if not isinstance(pinned, dict) or not isinstance(revisions, list):
        raise _not_a_pin_file(path, f"{_server_words(name)} has no tools or no revisions in it")
    if not isinstance(instructions, str | Absent | None):
        raise _not_a_pin_file(path, f"the instructions of {_server_words(name)} are not a text")
    return Approved(
        tuple(str(revision) for revision in revisions),
        instructions,
        {tool: _definition(path, tool, pin) for tool, pin in pinned.items()},
    )


def _definition(path: str, name: str, pin: JSON) -> JSONObject:
    approved = member(pin, "definition")
    if not isinstance(pin, dict) or not isinstance(approved, dict) or approved.keys() - FIELDS.keys():
        raise _not_a_pin_file(
            path, f"tool {visible(shown(name))} has no definition, or one with other members than a pin has"
        )
    if pin.get("sha256") != digest(approved) or approved.get("name") != name:
        fact = f"the definition of tool {visible(shown(name))} does not match its hash: it was edited"
        raise UsageError(path, fact, "restore the file, or delete it and pin again")
    return approved


def _not_a_pin_file(path: str, why: str) -> UsageError:
    return UsageError(path, f"not a file of pins: {why}", "write one with mcpproxy pin")
