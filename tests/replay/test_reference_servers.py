"""Servers that keep something: recorded, replayed in their place without them, and played again from anew.

What is asked changes what they hold, so equal requests have other answers later, in their recorded order.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.peers.fixtures import Peers
from tests.peers.processes import run

MCPPROXY: Final = (sys.executable, "-m", "mcpproxy")
DEADLINE_S: Final = 120

Step = dict[str, Any]


def call(tool: str, **arguments: Any) -> Step:
    return {"do": "call", "tool": tool, "arguments": arguments}


def round_trip(client: Sequence[str], server: Sequence[str], folder: Path, *comparing: str) -> Any:
    """Record ``client`` with ``server``, replay both; what the client got, the same each time.

    The server keeps all that it has in ``folder / "kept"``.
    """
    trace, kept = folder / "t.jsonl", folder / "kept"
    kept.mkdir()
    recorded = run([*client, "--", *MCPPROXY, "run", "--trace", str(trace), "--quiet", "--", *server])
    shutil.rmtree(kept)

    nowhere = ("env", "PATH=/nowhere")  # where no Node.js is
    assert run([*client, "--", *nowhere, *MCPPROXY, "replay", "server", str(trace)]) == recorded
    assert not kept.exists()

    kept.mkdir()
    replay = (*MCPPROXY, "replay", "client", str(trace), "--format", "json", *comparing, "--", *server)
    done = subprocess.run(replay, capture_output=True, text=True, timeout=DEADLINE_S)
    report = json.loads(done.stdout)
    assert [item for item in report["items"] if item["verdict"] != "same"] == []
    assert (done.returncode, report["notes"], report["counts"]["same"] > 10) == (0, [], True)
    return json.loads(recorded)


def texts(got: Any) -> list[str]:
    """What the tools said, in the order in which they were called."""
    said = [step["gave"]["result"] for step in got["steps"] if "result" in (step.get("gave") or {})]
    return [part["text"] for result in said for part in result["content"]]


def test_files(peers: Peers, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    poem = str(kept / "poem.txt")
    plan = [
        {"do": "list tools"},
        call("read_text_file", path=poem),
        call("write_file", path=poem, content="one\ntwo ☃\n"),
        call("read_text_file", path=poem),
        call("edit_file", path=poem, edits=[{"oldText": "two", "newText": "zwei"}]),
        call("read_text_file", path=poem),
        call("get_file_info", path=poem),
        call("list_directory", path=str(kept)),
        call("move_file", source=poem, destination=str(kept / "b.txt")),
        call("read_text_file", path=poem),
        call("read_text_file", path=str(tmp_path / "t.jsonl")),  # outside of what it may read
        {"do": "ping"},
    ]
    server = peers.reference_server("filesystem", str(kept))
    client = peers.client("python 1", json.dumps(plan))
    said = texts(round_trip(client, server, tmp_path, "--alike", "timestamps"))
    assert (said[2], said[4]) == ("one\ntwo ☃\n", "one\nzwei ☃\n")
    assert [each.split()[0] for each in (said[0], said[8], said[9])] == ["ENOENT:", "ENOENT:", "Access"]


def test_memory(peers: Peers, tmp_path: Path) -> None:
    ada = {"name": "Ada", "entityType": "person", "observations": ["wrote a programme"]}
    graph = {"do": "read", "uri": "memory://knowledge-graph"}
    plan = [
        {"do": "list tools"},
        {"do": "subscribe", "uri": "memory://knowledge-graph"},
        call("read_graph"),
        call("create_entities", entities=[ada]),
        call("read_graph"),
        graph,
        call("add_observations", observations=[{"entityName": "Nobody", "contents": ["was there"]}]),
        call("delete_entities", entityNames=["Ada"]),
        call("read_graph"),
        graph,
    ]
    keeps = f"MEMORY_FILE_PATH={tmp_path / 'kept' / 'memory.jsonl'}"
    server = ["env", keeps, *peers.reference_server("memory")]
    got = round_trip(peers.client("typescript 2", json.dumps(plan)), server, tmp_path)
    assert [message["method"] for message in got["heard"]] == ["notifications/resources/updated"] * 2
    empty, _, filled, *_, emptied = [json.loads(said) for said in texts(got) if said.startswith(("{", "["))]
    assert empty == emptied == {"entities": [], "relations": []}
    assert filled["entities"] == [ada]
