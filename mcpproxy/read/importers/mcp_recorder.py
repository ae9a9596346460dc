"""Read the cassettes of mcp-recorder: ``{"metadata": {}, "interactions": [{"request", "response"}]}``.

An interaction is a message of the client and its answer, both re-serialised, or a ``lifecycle`` request of
HTTP without a message. A cassette says how long each interaction took but not when it began, so each begins
here when the previous one has ended. It has no HTTP heads, no messages of the server beside the answers, and
no end of the session.
"""

import os
from collections.abc import Iterator
from typing import Final

import orjson

from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame, Sender
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import member, objects_in
from mcpproxy.read.importers.import_source import (
    Clock,
    ImportedSource,
    read_json_file,
    refuse,
    unix_ns,
)
from mcpproxy.record.trace.records import Header, Recorded

_IMPORT_NOTE: Final = "from mcp-recorder: messages written anew; when they were sent is not in it"
_PARTIAL_NOTE: Final = "mcp-recorder keeps the answers of a server, and none of its other messages"


def read(path: str, session: int) -> ImportedSource:
    """Open a cassette. It holds one session, so ``session`` is 0 or 1.

    Raises:
        TraceError: the file is not a cassette, or there is no such session.
    """
    cassette = read_json_file(path, "cassette")
    interactions = objects_in(member(cassette, "interactions"))
    if not any(isinstance(item.get("request"), dict) for item in interactions):
        refuse(path, None, "not a cassette: no interaction in it has a request")
    if session > 1:
        refuse(path, None, "holds one session")
    clock = Clock()
    clock.since(unix_ns(member(cassette, "metadata", "recorded_at")))  # this sets ``started_at``
    is_stdio = member(cassette, "metadata", "transport_type") == "stdio"
    url = member(cassette, "metadata", "server_url")
    header = Header(
        mcpproxy="",
        transport="stdio" if is_stdio else "http",
        label=os.path.basename(path),
        started_at=clock.started_at,
        upstream=url if isinstance(url, str) and not is_stdio else "",
        partial=_PARTIAL_NOTE,
        imported=_IMPORT_NOTE,
    )
    return ImportedSource(header, lambda: _events(interactions))


def _events(interactions: list[JSONObject]) -> Iterator[Recorded]:
    seq = at_ns = 0
    for interaction in interactions:
        latency = interaction.get("latency_ms")
        took_ns = round(latency * 1e6) if isinstance(latency, int | float) and 0 < latency < 1e10 else 0
        pair: tuple[tuple[Sender, JSON], ...] = (
            (CLIENT, interaction.get("request")),
            (SERVER, interaction.get("response")),
        )
        for sender, message in pair:
            at_ns += took_ns if sender == SERVER else 0
            if isinstance(message, dict):
                seq += 1
                yield Frame(seq, sender, orjson.dumps(message), at_ns)
