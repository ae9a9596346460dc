"""An agent in this process: it calls the tools, and holds every answer to its schema and to the bound."""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import jsonschema
import pytest
from mcp_types import Tool
from pydantic import TypeAdapter

from mcpproxy.errors import McpProxyError
from mcpproxy.show.agents.pages import as_json, text_of
from mcpproxy.show.agents.recording_library import RecordingLibrary
from mcpproxy.show.agents.tool_table import tools
from tests.peers.processes import ROOT
from tests.view.situations import SITUATIONS, write

RECORDINGS: Final = ROOT / "recordings"

ANSWER_BYTES: Final = 25_000

Answer = dict[str, Any]


@cache
def _adapter(answer: type) -> TypeAdapter[object]:
    """Return what holds an answer to its class: the schema of a tool does not say what the rows have."""
    return TypeAdapter(answer)


class Agent:
    """Asks about the recordings in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._library = RecordingLibrary(str(folder))
        self._tools = tools(self._library, allows_validate=False)
        self.names = list(self._tools)

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *args: object) -> None:
        self._library.close()

    def __call__(self, name: str, **arguments: Any) -> Answer:
        """Return the answer of a tool."""
        entry = self._tools[name]
        answer = entry.call(arguments)
        value = cast("Answer", as_json(answer))
        text = text_of(answer)
        assert json.loads(text) == value
        jsonschema.validate(value, cast("dict[str, Any]", entry.definition.output_schema))
        _adapter(type(answer)).validate_json(text, strict=True)
        result = {"content": [{"type": "text", "text": text}], "structuredContent": value}
        assert len(json.dumps(result, ensure_ascii=False).encode("utf-8", "surrogatepass")) < ANSWER_BYTES
        return value

    def definition(self, name: str) -> Tool:
        """Return the definition of a tool, as tools/list gives it."""
        return self._tools[name].definition

    def pages(self, name: str, **arguments: Any) -> list[Answer]:
        """Return all pages of the answer of a tool."""
        pages = [self(name, **arguments)]
        while cursor := pages[-1].get("next"):
            pages.append(self(name, **arguments, cursor=cursor))
        return pages

    def error(self, name: str, **arguments: Any) -> str:
        """Return the text of the error that a tool answers with."""
        with pytest.raises(McpProxyError) as fault:
            self._tools[name].call(arguments)
        assert "\n" not in str(fault.value)
        return str(fault.value)


def calls_in(page: Answer) -> list[Answer]:
    """Return the calls on a page of find_calls, each with its recording."""
    return [{"recording": found["recording"], **call} for found in page["found"] for call in found["calls"]]


def with_recordings(folder: Path) -> Path:
    """Put the recordings that ship into ``folder``."""
    folder.mkdir(exist_ok=True)
    for path in RECORDINGS.glob("*.jsonl"):
        shutil.copy2(path, folder)
    return folder


def with_situations(folder: Path) -> Path:
    """Put a recording of each situation into ``folder``."""
    folder.mkdir(exist_ok=True)
    for name, records in SITUATIONS.items():
        write(folder / f"{name.replace(' ', '-')}.jsonl", records)
    return folder
