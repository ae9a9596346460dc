"""The official JSON schemas as an oracle: what they refuse has a finding, but for named kinds.

The messages are those of every fixture of the rules, in every revision, and of the recordings. A schema
describes one message alone, so the answers take the schema of the method that they answer.
"""

import gzip
import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest

from mcpproxy.judge.session.frame import Event, Finding, Frame, other
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import member
from mcpproxy.read.opening import open_trace
from tests.rules import runner

FOLDER: Final = Path(__file__).parent / "official_schemas"

RECORDINGS: Final = Path(__file__).parent.parent.parent / "recordings"

EMPTY: Final = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
"""The methods whose result is EmptyResult."""

# What the schemas refuse and we do not: fixture and definition (regular expressions), and why.
EXCUSED: Final = (
    (r"\S+-stateless CallToolResult task", "a task in place of the result is of the extension of tasks"),
    (r"RPC-022/\S+ InitializeResult", "a request has two ids; this reader of it takes the other one"),
    (
        r"\S+/good-(older-server|both-eras)\S* \w+",
        "a peer of the other era, which lawfully speaks as it knows",
    ),
    (r"ACP-\d+/\S+ LoadSessionResponse", "the text of version 1 has null as the result of session/load"),
    (
        r"ACP-011/good-capabilities InitializeResponse",
        "all optional members may be null; see shapes.acp_messages",
    ),
    (
        r"ACP-(011/good-plan-entry|015/good-(draft|own)|018/good-subagent) SessionNotification",
        "a name of an extension (_name), or an update that only a draft has",
    ),
    (r"ACP-012/good-own-outcome RequestPermissionResponse", "a name of an extension (_name)"),
    (r"ELIC-007/good-fraction ElicitResult", "the TypeScript source says number; its conversion, integer"),
)


@dataclass(frozen=True)
class Refused:
    """A message that its official schema refuses. ``what`` is where it stands and its definition."""

    seq: int
    what: str
    why: str


class Official:
    """The official schema of one revision."""

    def __init__(self, revision: str) -> None:
        self._root: dict[str, Any] = json.loads(text(revision))
        self._key = "definitions" if "definitions" in self._root else "$defs"
        self._acp = revision.startswith("acp")
        self.names = dict(self._acp_names() if self._acp else self._mcp_names())

    def _acp_names(self) -> Iterator[tuple[tuple[str, str], str]]:
        for name, schema in self._root[self._key].items():
            if method := schema.get("x-method"):
                kind = next((k for k in ("Request", "Response") if name.endswith(k)), "Notification")
                yield (kind, method), name

    def _mcp_names(self) -> Iterator[tuple[tuple[str, str], str]]:
        definitions = self._root[self._key]
        for name, schema in definitions.items():
            method = schema.get("properties", {}).get("method", {}).get("const")
            if method is None:
                continue
            kind = "Request" if name.endswith("Request") else "Notification"
            yield (kind, method), name
            result = name.removesuffix("Request") + "Result"
            if kind == "Request":
                yield ("Response", method), "EmptyResult" if method in EMPTY else result

    @cache  # noqa: B019 # there is one instance for each revision
    def _validator(self, name: str) -> Any:
        definitions = self._root[self._key]
        if name not in definitions:
            return None
        schema = {"$ref": f"#/{self._key}/{name}", self._key: definitions}
        return jsonschema_rs.validator_for({"$schema": self._root["$schema"], **schema})

    def refused(self, where: str, frames: Iterable[Frame]) -> Iterator[Refused]:
        """Yield the messages that the schema refuses."""
        asked: dict[tuple[str, str], str] = {}
        for frame in frames:
            for message in _messages(frame):
                method, id = message.get("method"), str(message.get("id"))
                kind = "Request" if "id" in message else "Notification"
                value: JSON = message.get("params", {}) if self._acp else message
                if isinstance(method, str):
                    asked[frame.sender, id] = method
                elif "result" in message:
                    kind, value = "Response", message["result"]
                    method = asked.get((other(frame.sender), id))
                name = self._definition(kind, str(method), value)
                validator = self._validator(name) if name else None
                error = next(iter(validator.iter_errors(value)), None) if validator else None
                if error is not None:
                    task = " task" if member(value, "resultType") == "task" else ""
                    yield Refused(frame.seq, f"{where} {name}{task}", error.message[:200])

    def _definition(self, kind: str, method: str, value: JSON) -> str | None:
        """Return the name of the definition of a message, ``None`` if there is none."""
        if member(value, "resultType") == "input_required":
            return "InputRequiredResult"
        is_new_task = kind == "Response" and method != "tasks/get" and isinstance(member(value, "task"), dict)
        if is_new_task and "CreateTaskResult" in self._root[self._key]:
            return "CreateTaskResult"
        return self.names.get((kind, method))


def _messages(frame: Frame) -> list[JSONObject]:
    try:
        value: JSON = json.loads(frame.raw)
    except ValueError:
        return []
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def text(revision: str) -> bytes:
    return gzip.decompress((FOLDER / f"{revision}.json.gz").read_bytes())


@cache
def official(revision: str) -> Official:
    return Official(revision)


def unmentioned(refused: Iterable[Refused], findings: Iterable[Finding]) -> Iterator[Refused]:
    """Yield the refused messages without a finding, at their frame or related to it."""
    found = {seq for finding in findings for seq in (finding.frame, *finding.related)}
    return (each for each in refused if each.seq not in found)


def frames_of(events: Iterable[Event | Finding]) -> list[Frame]:
    return [event for event in events if isinstance(event, Frame)]


def revisions() -> tuple[str, ...]:
    return tuple(tomllib.loads((FOLDER / "schemas.toml").read_text(encoding="utf-8")))


def test_the_schemas_are_what_their_repositories_have() -> None:
    rows = tomllib.loads((FOLDER / "schemas.toml").read_text(encoding="utf-8"))
    files = {f"{name}.json.gz" for name in rows} | {row["license"] for row in rows.values()}
    assert {path.name for path in FOLDER.iterdir()} == {"schemas.toml", *files}
    for revision, row in rows.items():
        assert sha256(text(revision)).hexdigest() == row["sha256"], revision


def test_what_the_schemas_refuse_in_a_fixture_has_a_finding_or_a_named_reason() -> None:
    excused, left = defaultdict[str, int](int), list[str]()
    for fixture in runner.fixtures():
        for revision in set(fixture.revisions).intersection(revisions()):
            events = [event for step in runner.steps(fixture, revision) for event in step.events]
            refused = list(official(revision).refused(str(fixture), frames_of(events)))
            if not refused:
                continue  # Judging is what takes the time.
            for each in unmentioned(refused, runner.judge(fixture, revision).findings):
                excuse = next((what for what, _ in EXCUSED if re.fullmatch(what, each.what)), None)
                if excuse is None:
                    left.append(f"{each.what}, {revision}, frame {each.seq}: {each.why}")
                else:
                    excused[excuse] += 1
    assert left == []
    assert set(excused) == {what for what, _ in EXCUSED}, "an excuse is not needed any more"


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_what_the_schemas_refuse_in_a_recording_has_a_finding(path: Path) -> None:
    events = list(open_trace(str(path)).events())
    findings = [event for event in events if isinstance(event, Finding)]
    revision = next(revision for revision in revisions() if revision in path.name)
    refused = official(revision).refused(path.stem, frames_of(events))
    assert list(unmentioned(refused, findings)) == []
