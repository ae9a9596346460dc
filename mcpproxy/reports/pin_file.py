"""A file of pins: the tools that a user has approved, as they were at that time.

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

Members are sorted and each is on its own line, so that changing one member changes one line. The hash is that
of the definition in canonical form (RFC 8785); it no longer matches if the definition is edited.
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
class Gathered:
    """What recordings show about servers. ``partial`` are the servers of which no complete list was seen.

    ``contradictions`` are lines, one for each thing that is defined in two ways.
    """

    pins: dict[str, Approved] = field(default_factory=dict[str, Approved])
    partial: set[str] = field(default_factory=set[str])
    contradictions: list[str] = field(default_factory=list[str])

    def add(self, other: "Gathered", where: str) -> None:
        """Add what another recording, called ``where``, shows; it may have more tools."""
        for server, approved in other.pins.items():
            known = self.pins.get(server)
            if known is None:
                self.pins[server] = approved
                self.partial |= {server} & other.partial
                continue
            if server not in other.partial:
                self.partial.discard(server)
            self.contradictions += (f"{where}: {said}" for said in _contradictions(server, known, approved))
            self.pins[server] = _joined(known, approved)
        self.contradictions += other.contradictions


def gather(trace: Trace) -> Gathered:
    """Return what a recording shows: the tools on all pages of all lists, and the instructions.

    Raises:
        TraceError: it cannot be read, lists no tools, does not name their server, or has a part masked.
    """
    seen: list[SeenTools] = []
    # The collector comes first: it must see a page before the tools family updates its state.
    dispatch = Dispatch([collector(seen.append), tools.FAMILY])
    observer = Observer(catalogue.load(), dispatch, joined_late=trace.joined_late, redacted=trace.redacted)
    for event in trace.events():
        if not isinstance(event, Finding):
            observer.observe(event)
    lists = [one for one in seen if one.tools is not None]
    if not lists:
        raise TraceError(
            trace.path, None, "no answer to tools/list in it", "record a session that lists its tools"
        )
    found = Gathered()
    for one in seen:
        if one.server is None:
            if one.tools is None:
                continue
            fact = f"frame {one.seq} lists the tools of a server whose name was not seen"
            raise TraceError(trace.path, None, fact, "record a session from its start")
        found.add(_one(trace.path, one.server, one), f"frame {one.seq}")
    listed = {one.server for one in lists if one.server is not None}
    whole = {one.server for one in lists if one.whole}
    found.partial = listed - whole
    found.pins = {server: approved for server, approved in found.pins.items() if server in listed}
    return found


def _one(path: str, server: str, one: SeenTools) -> Gathered:
    instructions = one.instructions
    listed = {str(tool["name"]): definition(tool) for tool in one.tools or ()}
    if holds_mask([*listed.values()]) or (isinstance(instructions, str) and holds_mask(instructions)):
        fact = f"a part of what frame {one.seq} says is masked"
        raise TraceError(path, None, fact, "pin from the recording before it was redacted")
    found = Gathered({server: Approved(one.revisions, instructions, listed)})
    twice = {str(tool["name"]) for tool in one.tools or () if definition(tool) != listed[str(tool["name"])]}
    for name in sorted(twice):
        said = f"{_server(server)} has two tools called {visible(shown(name))}"
        found.contradictions.append(f"frame {one.seq}: {said}")
    return found


def _joined(one: Approved, other: Approved) -> Approved:
    both = dict(one.tools)
    for name, listed in other.tools.items():
        both[name] = {**both.get(name, {}), **listed}
    revisions = tuple(r for r in REVISIONS if r in {*one.revisions, *other.revisions})
    instructions = other.instructions if one.instructions is ABSENT else one.instructions
    return Approved(revisions, instructions, both)


def _contradictions(server: str, was: Approved, now: Approved) -> list[str]:
    both = was.tools.keys() & now.tools.keys()
    one, other = (replace(of, tools={name: of.tools[name] for name in both}) for of in (was, now))
    return differences({server: one}, {server: other})


def differences(was: Pins, now: Pins, partial: frozenset[str] = frozenset()) -> list[str]:
    """Return one line for each difference between ``was`` and ``now``.

    Servers that are not in ``now`` are ignored, and so are tools missing from a ``partial`` list.
    """
    found: list[str] = []
    for server, approved in sorted(now.items()):
        before, of = was.get(server), _server(server)
        if before is None:
            found.append(f"{of} is new, with {count(len(approved.tools), 'tool')}")
            continue
        found += (f"{of}: {said}" for said in _instructions(before.instructions, approved.instructions))
        for name, listed in sorted(approved.tools.items()):
            tool = before.tools.get(name)
            if tool is None:
                found.append(f"{of}: tool {visible(shown(name))} is new")
                continue
            found += (
                f"{of}: tool {visible(shown(name))}: {one.field} {one.what}"
                for one in changes(tool, listed, approved.revisions, before.revisions)
            )
        if server not in partial:
            gone = sorted(before.tools.keys() - approved.tools.keys())
            found += (f"{of}: tool {visible(shown(name))} is gone" for name in gone)
    return found


def _instructions(was: "str | Absent | None", now: "str | Absent | None") -> Iterator[str]:
    if was != now and not isinstance(was, Absent) and not isinstance(now, Absent):
        _, what = describe_difference(ABSENT if was is None else was, ABSENT if now is None else now)
        yield f"instructions {what}"


def _server(name: str) -> str:
    return f"server {visible(shown(name))}" if name else "the server without a name"


def updated(was: Pins, now: Pins, partial: frozenset[str] = frozenset()) -> Pins:
    """Return ``was`` updated by the servers in ``now``; unseen tools of a ``partial`` server are kept."""
    found = dict(was)
    for server, approved in now.items():
        before = was.get(server)
        if before is not None and server in partial:
            approved = replace(approved, tools={**before.tools, **approved.tools})
        if before is not None and approved.instructions is ABSENT:
            approved = replace(approved, instructions=before.instructions)
        found[server] = approved
    return found


# The file


def dumps(pins: Pins) -> str:
    """Return the text of a file of pins. Invisible characters are written as escapes.

    Raises:
        UsageError: a definition is nested too deeply to be read back.
    """
    servers: JSONObject = {name: _server_table(approved) for name, approved in pins.items()}
    document: JSONObject = {"pins": VERSION, "servers": servers}
    try:
        text = json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True)
    except RecursionError:
        raise UsageError(
            "pin", "a definition nests too deep to be written", "look at the server's tools"
        ) from None
    return visible_lines(text) + "\n"


def _server_table(approved: Approved) -> JSONObject:
    listed: JSONObject = {
        name: {"definition": tool, "sha256": digest(tool)} for name, tool in approved.tools.items()
    }
    table: JSONObject = {"revisions": [*approved.revisions], "tools": listed}
    if not isinstance(approved.instructions, Absent):
        table["instructions"] = approved.instructions
    return table


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
        raise _no_pins(path, "it is not UTF-8") from None
    return loads(text, path)


def loads(text: str, path: str) -> Pins:
    """Return the pins in the text of a file; ``path`` is its path, for error messages.

    Raises:
        UsageError: it is not the text of a file of pins, or was edited.
    """
    try:
        document: JSON = json.loads(text)
    except (ValueError, RecursionError):
        raise _no_pins(path, "it is not JSON") from None
    if not isinstance(document, dict) or "pins" not in document:
        raise _no_pins(path, "it has no member pins")
    if document["pins"] != VERSION:
        fact = f"it is of version {shown(document['pins'])}, and this mcpproxy reads {VERSION}"
        raise UsageError(path, fact, "please update mcpproxy")
    servers = document.get("servers")
    if not isinstance(servers, dict):
        raise _no_pins(path, "it has no servers")
    return {server: _approved(path, server, table) for server, table in servers.items()}


def _approved(path: str, server: str, table: JSON) -> Approved:
    listed = table.get("tools") if isinstance(table, dict) else None
    revisions = table.get("revisions") if isinstance(table, dict) else None
    instructions = table.get("instructions", ABSENT) if isinstance(table, dict) else 0
    if not isinstance(listed, dict) or not isinstance(revisions, list):
        raise _no_pins(path, f"{_server(server)} has no tools or no revisions in it")
    if not isinstance(instructions, str | Absent | None):
        raise _no_pins(path, f"the instructions of {_server(server)} are no text")
    return Approved(
        tuple(str(revision) for revision in revisions),
        instructions,
        {name: _definition(path, name, pin) for name, pin in listed.items()},
    )


def _definition(path: str, name: str, pin: JSON) -> JSONObject:
    found = pin.get("definition") if isinstance(pin, dict) else None
    if not isinstance(pin, dict) or not isinstance(found, dict) or found.keys() - FIELDS.keys():
        raise _no_pins(path, f"tool {visible(shown(name))} has no definition, or a strange one")
    if pin.get("sha256") != digest(found) or found.get("name") != name:
        fact = f"the definition of tool {visible(shown(name))} does not fit its hash: it was edited"
        raise UsageError(path, fact, "restore the file, or delete it and pin anew")
    return found


def _no_pins(path: str, why: str) -> UsageError:
    return UsageError(path, f"no file of pins: {why}", "write one with mcpproxy pin")
