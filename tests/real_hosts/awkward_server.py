"""A server over stdio that is lawful and hard to show to a model: ``python awkward_server.py``.

It says the same in every run, and needs nothing but Python. All tools that scripts call are on the first of
its two pages, because some hosts read no other.
"""

import json
import sys
from base64 import b64encode
from collections.abc import Mapping
from struct import pack
from typing import Any, Final
from zlib import compress, crc32

NAME: Final = "awkward"
REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
SECOND_PAGE: Final = "2"
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602

SEVENTY: Final = "report_the_water_level_of_the_lock_between_the_two_basins_at_low_water"
EAST: Final = (
    "compare_the_readings_of_all_gauges_of_the_river_upstream_of_the_east_weir_with_the_mean_of_this_season"
)
WEST: Final = EAST.replace("_east_", "_west_")
"""Hosts that keep the first 60 characters, or the first and the last 30, give both the same name."""

SVG: Final = b'<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"><circle r="2"/></svg>'
PDF: Final = b"%PDF-1.4\ntrailer<</Root 1 0 R>>\n%%EOF\n"


def marked(word: str, length: int) -> str:
    """Return a text in which every place says where it is, so that one sees what is left of it."""
    return "".join(f"{word} {at:06} " for at in range(0, length, len(word) + 8))[:length]


def png(red: int, green: int, blue: int) -> bytes:
    """Return a picture of 16 x 16 pixels in one colour. Hosts decode pictures, so it is a real one."""
    side = 16
    rows = (b"\0" + bytes((red, green, blue)) * side) * side
    header = pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", compress(rows)), (b"IEND", b""))
    written = (pack(">I", len(held)) + kind + held + pack(">I", crc32(kind + held)) for kind, held in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


def wav(samples: int) -> bytes:
    """Return silence, 8 bits at 8,000 Hz."""
    form = pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    body = b"WAVE" + form + pack("<4sI", b"data", samples) + b"\x80" * samples
    return pack("<4sI", b"RIFF", len(body)) + body


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def held(kind: str, data: bytes, mime: str) -> dict[str, Any]:
    return {"type": kind, "data": b64encode(data).decode(), "mimeType": mime}


def members(**schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas}


STRING: Final = {"type": "string"}
POINT: Final = members(x={"type": "number"}, y={"type": "number"}) | {"required": ["x", "y"]}
BRANCH: Final = members(label=STRING, next={"$ref": "#/$defs/Branch"})

FIRST: Final[list[dict[str, Any]]] = [
    {
        "name": "greet",
        "title": "A greeting",
        "description": "Greets somebody.",
        "inputSchema": members(whom={**STRING, "description": "the name"}) | {"required": ["whom"]},
        "annotations": {"readOnlyHint": True},
        "_meta": {"example.org/colour": "blue"},
    },
    {"name": SEVENTY, "description": "Its name has 70 characters.", "inputSchema": members()},
    {"name": EAST, "description": "The readings in the east.", "inputSchema": members()},
    {"name": WEST, "description": "The readings in the west.", "inputSchema": members()},
    {"name": "wind.speed", "description": "Its name has a dot.", "inputSchema": members(at=STRING)},
    {
        "name": "explained",
        "description": marked("word", 3000),
        "inputSchema": members(q={**STRING, "description": marked("note", 1500)}),
    },
    {
        "name": "either",
        "description": "Its schema is a union.",
        "inputSchema": members(id=STRING, number={"type": "integer"})
        | {"oneOf": [{"required": ["id"]}, {"required": ["number"]}]},
    },
    {
        "name": "route",
        "description": "Its schema refers to itself.",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$defs": {"Point": POINT, "Branch": BRANCH},
            **members(
                start={"$ref": "#/$defs/Point", "description": "where"}, via={"$ref": "#/$defs/Branch"}
            ),
            "required": ["start"],
        },
    },
    {
        "name": "book",
        "description": "Its schema has many keywords.",
        "inputSchema": members(
            at={**STRING, "format": "date-time"},
            page={**STRING, "format": "uri"},
            code={**STRING, "pattern": "^[A-Z]{3}$", "minLength": 3, "maxLength": 3},
            seats={"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
            share={"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.25},
            side={"enum": ["left", "right"]},
            kind={"const": "boat"},
            names={"type": "array", "items": STRING, "minItems": 1, "uniqueItems": True},
            anything={},
            old={**STRING, "title": "Old", "examples": ["x"], "deprecated": True},
            who={"anyOf": [STRING, members(name=STRING)]},
            which={"oneOf": [STRING, {"type": "integer"}]},
            notes={
                "type": "object",
                "patternProperties": {"^n-": STRING},
                "additionalProperties": {"type": "number"},
            },
        )
        | {"required": ["at", "seats"], "additionalProperties": False},
    },
    {
        "name": "collect",
        "description": "An array of anything.",
        "inputSchema": members(items={"type": "array"}),
    },
    {
        "name": "perhaps",
        "description": "Several types, and a name with brackets.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "s": {"type": ["string", "null"]},
                "t": {"type": ["string", "number", "null"]},
                "ids[]": {"type": "array", "items": STRING},
            },
        },
    },
    {"name": "silent", "inputSchema": {"type": "object"}},
    {
        "name": "forecast",
        "description": "Text and a picture beside structured content.",
        "inputSchema": members(),
        "outputSchema": members(sky=STRING, degrees={"type": "number"}),
    },
    {"name": "logbook", "description": "120,000 characters.", "inputSchema": members()},
    {"name": "badge", "description": "A picture as SVG.", "inputSchema": members()},
    {"name": "papers", "description": "Links, files, sound and two pictures.", "inputSchema": members()},
    {"name": "broken", "description": "It always fails.", "inputSchema": members()},
    {"name": "refused", "description": "Its answer is an error.", "inputSchema": members()},
]
SECOND: Final[list[dict[str, Any]]] = [
    {"name": "tide.table", "description": "The second page; a dot.", "inputSchema": members(day=STRING)},
    {"name": "tide_table", "description": "The second page; a low line.", "inputSchema": members(day=STRING)},
]

RESULTS: Final[Mapping[str, dict[str, Any]]] = {
    "forecast": {
        "content": [text("Fair over the harbour."), held("image", png(0, 90, 255), "image/png")],
        "structuredContent": {"sky": "fair", "degrees": 12.5},
    },
    "logbook": {"content": [text(marked("entry", 120_000))]},
    "badge": {"content": [text("The badge of the club."), held("image", SVG, "image/svg+xml")]},
    "papers": {
        "content": [
            text("The papers of the boat."),
            {
                "type": "resource_link",
                "uri": "awkward://papers/1",
                "name": "certificate",
                "description": "what the surveyor wrote",
                "mimeType": "text/plain",
            },
            {"type": "resource", "resource": {"uri": "awkward://papers/2", "text": "Built in 1931 of oak."}},
            {
                "type": "resource",
                "resource": {
                    "uri": "awkward://papers/3",
                    "mimeType": "application/pdf",
                    "blob": b64encode(PDF).decode(),
                },
            },
            held("audio", wav(80), "audio/wav"),
            held("image", png(0, 160, 60), "image/png"),
            held("image", png(200, 40, 0), "image/png"),
        ]
    },
    "broken": {"content": [text("The gauge is out of order.")], "isError": True},
}


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked and "method" in asked:
            answer = _answer(asked["method"], asked.get("params", {}))
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}) + "\n")
            sys.stdout.flush()


def _answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the member of the answer that is not its id: a result or an error."""
    match method:
        case "initialize":
            revision = params["protocolVersion"]
            return {
                "result": {
                    "protocolVersion": revision if revision in REVISIONS else REVISIONS[-1],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": NAME, "version": "1"},
                    "instructions": marked("rule", 3000),
                }
            }
        case "ping":
            return {"result": {}}
        case "tools/list" if params.get("cursor") == SECOND_PAGE:
            return {"result": {"tools": SECOND}}
        case "tools/list":
            return {"result": {"tools": FIRST, "nextCursor": SECOND_PAGE}}
        case "tools/call":
            return _called(params["name"], params.get("arguments", {}))
        case _:
            return {"error": {"code": METHOD_NOT_FOUND, "message": f"There is no method {method}."}}


def _called(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "refused":
        return {"error": {"code": INVALID_PARAMS, "message": "The harbour master refuses this."}}
    if name == "greet":
        return {"result": {"content": [text(f"Hello, {arguments['whom']}.")]}}
    return {
        "result": RESULTS.get(name) or {"content": [text(f"{name} was called with {json.dumps(arguments)}")]}
    }


if __name__ == "__main__":
    main()
