"""Calls as a sequence diagram, and as text for Mermaid that no foreign text can break."""

import re
from pathlib import Path

import pytest

from mcpproxy.cli.main import main
from mcpproxy.read.view.diagrams.sequence import escape, sequence
from mcpproxy.read.view.view import open_view
from tests.view.situations import SITUATIONS, begun, text, write

LINE = re.compile(
    r"    (?:participant (?:C|S1) as |(?:C|S1)-(?:>>|->>|-x)(?:C|S1): |Note over C: )[^\n;]*(?:#\d+;[^\n;]*)*"
)


def lines(folder: Path, name: str) -> list[str]:
    with open_view(write(folder / "s.jsonl", SITUATIONS[name])) as view:
        return sequence(view).mermaid().splitlines()


def test_requests_of_the_server_stand_within_the_call(tmp_path: Path) -> None:
    said = lines(tmp_path, "server request in a call")
    assert said[:4] == [
        "sequenceDiagram",
        "    participant C as desk",
        "    participant S1 as weather",
        "    C->>S1: initialize",
    ]
    asked = next(at for at, line in enumerate(said) if "C->>S1: tools/call forecast" in line)
    assert [line[4:].partition(":")[0] for line in said[asked:]] == ["C->>S1", "S1->>C", "C-->>S1", "S1-->>C"]


def test_notifications_and_missing_answers_are_told(tmp_path: Path) -> None:
    assert sum("notifications/progress" in line for line in lines(tmp_path, "progress")) == 2
    assert "    S1--xC: no answer to tools/call forecast for " in "\n".join(lines(tmp_path, "hanging call"))


def test_an_answer_has_the_word_of_its_outcome(tmp_path: Path) -> None:
    said = "\n".join(lines(tmp_path, "failed tool"))
    assert "S1-->>C: tools/call forecast#58; tool error, 12.0 ms#58; no such city#58; Atlantis" in said


def test_only_the_first_calls_are_drawn(tmp_path: Path) -> None:
    with open_view(write(tmp_path / "s.jsonl", SITUATIONS["failed tool"])) as view:
        found = sequence(view, "kind:request", limit=1)
        assert (len(found.arrows), found.left_out) == (2, 2)
        assert found.mermaid().endswith("    Note over C: 2 more calls are left out\n")


def test_foreign_text_is_no_part_of_the_diagram(tmp_path: Path) -> None:
    evil = "x\n    S1->>C: forged;end %%{init: {}}%% <script>alert(1)</script> #35; ```" + "y" * 10_000
    talk = begun()
    talk.asks(2, "tools/call", {"name": evil, "arguments": {}}, ms=60)
    talk.notifies("notifications/message", {"level": "info", "data": evil}, ms=65)
    talk.answers(2, text(evil, isError=True), ms=70)
    trace = write(tmp_path / "s.jsonl", talk.closes(ms=80))
    with open_view(trace) as view:
        diagram = sequence(view).mermaid()
    said = diagram.splitlines()
    assert len(said) == 3 + 8
    for line in said[1:]:
        assert LINE.fullmatch(line), line
        assert len(line) < 600
    assert not set("<>{}%`") & set(diagram.replace("->>", ""))


@pytest.mark.parametrize(
    ("given", "shown"), [("a;b", "a#59;b"), ("Übung #1", "Übung #35;1"), (" a:b ", "a#58;b")]
)
def test_what_mermaid_would_read_is_an_entity(given: str, shown: str) -> None:
    assert escape(given) == shown


def test_it_is_a_file_without_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(tmp_path / "s.jsonl", SITUATIONS["failed tool"])
    assert main(["export", "mermaid", trace]) == 0
    assert (tmp_path / "s.mermaid").read_text().startswith("sequenceDiagram\n")
    assert "s.mermaid: 7 messages" in capsys.readouterr().err
