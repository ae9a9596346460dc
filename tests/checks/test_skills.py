"""Skills: what a frontmatter says for certain, and how much is remembered and computed."""

import hashlib
import json
from collections.abc import Iterator
from typing import Final

import pytest

from mcpproxy.judge.checks.server import skill_files
from mcpproxy.judge.checks.server.frontmatter import begins_with_frontmatter, frontmatter_of, unlike
from mcpproxy.judge.checks.server.skill_files import MAX_FILES
from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.judge.session.frame import Finding, Frame, Sender
from mcpproxy.judge.session.masked_values import mask
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.meta_keys import VERSION_KEY

BUILT_IN: Final = catalogue.load()

META: Final[JSONObject] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

SKILLS: Final[JSONObject] = {"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}}

ENTRY: Final[JSONObject] = {"frontmatter": {"name": "refunds", "description": "Refund an order"}}


FILES: Final = 500
"""The number of files in each of many skills."""


class Session:
    """A client and a server on stdio, and their judge."""

    def __init__(self, capabilities: JSONObject) -> None:
        self.observer = Observer(BUILT_IN, Ruleset(BUILT_IN).dispatch)
        self.frames = 0
        versions: list[JSON] = ["2026-07-28"]
        self.ask("server/discover", {}, {"supportedVersions": versions, "capabilities": capabilities})

    def ask(self, method: str, params: JSONObject, result: JSONObject) -> list[Finding]:
        """Let the client ask and the server answer, and return the findings."""
        id = self.frames
        hints: JSONObject = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        request: JSONObject = {
            "jsonrpc": "2.0",
            "id": id,
            "method": method,
            "params": {**params, "_meta": META},
        }
        return [
            *self.say("client", request),
            *self.say("server", {"jsonrpc": "2.0", "id": id, "result": {**hints, **result}}),
        ]

    def read(self, uri: str, text: str) -> list[Finding]:
        """Let the client read a file, and return the findings."""
        contents: list[JSON] = [{"uri": uri, "text": text}]
        return self.ask("resources/read", {"uri": uri}, {"contents": contents})

    def say(self, sender: Sender, message: JSONObject) -> list[Finding]:
        self.frames += 1
        frame = Frame(self.frames, sender, json.dumps(message).encode(), self.frames)
        return self.observer.observe(frame)


def manifest(name: str, files: int) -> Iterator[JSON]:
    """The files of a skill, all of them empty."""
    digest = f"sha256:{hashlib.sha256().hexdigest()}"
    for number in range(files):
        file = "SKILL.md" if number == 0 else f"{number}.md"
        yield {"uri": f"skill://{name}/{file}", "digest": digest, "size": 0}


def test_of_many_files_the_latest_are_known() -> None:
    session = Session(SKILLS)
    names = [f"skill-{number}" for number in range(2 * MAX_FILES // FILES)]
    for name in names:
        skill: JSONObject = {
            "uri": f"skill://{name}/SKILL.md",
            "frontmatter": {"name": name, "description": "Do it"},
            "resources": list(manifest(name, FILES)),
        }
        assert session.ask("skills/list", {}, {"skills": [skill]}) == []
    read = {name: session.read(f"skill://{name}/1.md", "not empty") for name in (names[0], names[-1])}
    assert [[finding.rule for finding in found] for found in read.values()] == [[], ["SKILL-010"]]


@pytest.mark.parametrize("method", ["skills/list", "skills/get", "resources/directory/read"])
def test_a_request_for_input_is_no_malformed_result(method: str) -> None:
    result: JSONObject = {"resultType": "input_required", "inputRequests": {}, "ttlMs": None}
    found = Session(SKILLS).ask(method, {"uri": "skill://refunds/SKILL.md"}, result)
    assert "SKILL-004" not in [finding.rule for finding in found]


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_listed_skill_may_be_refused_if_the_request_is_incomplete(is_complete: bool) -> None:
    session, uri = Session(SKILLS), "skill://refunds/SKILL.md"
    session.ask("skills/list", {}, {"skills": [{**ENTRY, "uri": uri, "resources": "dynamic"}]})
    meta: JSONObject = META if is_complete else {VERSION_KEY: "2026-07-28"}
    params: JSONObject = {"uri": uri, "_meta": meta}
    session.say("client", {"jsonrpc": "2.0", "id": 9, "method": "skills/get", "params": params})
    error: JSONObject = {"code": -32602, "message": "Invalid params"}
    found = session.say("server", {"jsonrpc": "2.0", "id": 9, "error": error})
    assert [finding.rule for finding in found] == ["SKILL-015"] * is_complete


@pytest.mark.parametrize("capabilities", [{"resources": {}}, SKILLS])
def test_resources_of_no_skill_are_not_hashed(
    capabilities: JSONObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(raw: bytes, text: str | None) -> None:
        raise AssertionError(f"{raw!r} of {text!r} was hashed")

    monkeypatch.setattr(skill_files, "_hash_file", refuse)
    assert Session(capabilities).read("file:///a.md", "a") == []


@pytest.mark.parametrize(
    ("text", "difference"),
    [
        ("---\nname: refunds\ndescription: Refund an order\n---\n", ""),
        ("---\r\nname: refunds\r\ndescription: Refund an order\r\n---\r\n", ""),
        ("---\ndescription: 'Refund an order'\nname: \"refunds\"\n---", ""),
        (
            "---\nname: refunds\ndescription: Return an order\n---\n",
            'description is "Return an order" in SKILL.md',
        ),
        ("---\nname: refunds\n---\n", 'SKILL.md lacks "description"'),
        ("---\nname: refunds\ndescription: |\n  Refund\nlicense: MIT\n---\n", 'the entry lacks "license"'),
        # What is not certain counts as equal: several lines, escapes, comments, other forms of YAML.
        ("---\nname: refunds\ndescription: Refund\n  an order\n---\n", ""),
        ("---\nname: refunds\ndescription: Refund\n\n  an order\n---\n", ""),
        ("---\nname: refunds\ndescription: Return an order\n\n  # shop\n---\n", ""),
        ("---\nname: refunds\ndescription: Refund # an order\n---\n", ""),
        ('---\nname: refunds\ndescription: "Return \\u0061n order"\n---\n', ""),
        ("---\nname: refunds\ndescription: &text Return\n---\n", ""),
        ("---\n{name: refunds}\n---\n", ""),
        # YAML 1.1 reads the name as true.
        ("---\nname: refunds\ndescription: Refund an order\non: sale\n---\n", ""),
        ("---\nname: refunds\n", ""),
    ],
)
def test_a_frontmatter_is_compared_where_it_is_certain(text: str, difference: str) -> None:
    listed = frontmatter_of(ENTRY)
    assert listed is not None
    assert begins_with_frontmatter(text)
    assert unlike(text, listed) == difference


def test_a_masked_text_is_not_compared() -> None:
    masked = str(mask("Refund an order"))
    listed = frontmatter_of({"frontmatter": {"name": "refunds", "description": masked}})
    assert listed is not None
    assert unlike("---\nname: refunds\ndescription: Refund an order\n---\n", listed) == ""


@pytest.mark.parametrize("text", ["", "# Refunds\n---\n", " ---\nname: refunds\n---\n", "----\n"])
def test_a_text_without_frontmatter(text: str) -> None:
    assert not begins_with_frontmatter(text)


def test_a_byte_order_mark_may_come_before_the_frontmatter() -> None:
    assert begins_with_frontmatter("\ufeff---\nname: refunds\n---\n")
