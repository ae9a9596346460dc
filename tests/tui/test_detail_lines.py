"""The lines of a call's detail."""

from pathlib import Path

from mcpproxy.read.view.view import open_view
from mcpproxy.show.tui.detail_lines import detail_lines
from tests.view.situations import begun, forecast, text, write


def test_stderr_of_a_call_begins_with_its_last_lines(tmp_path: Path) -> None:
    talk = begun()
    talk.asks(2, "tools/call", forecast("Oslo"), ms=100)
    for number in range(1, 31):
        talk.record("stderr", 100 + number / 10, {"text": f"line {number}"})
    talk.answers(2, text("no", isError=True), ms=110)
    with open_view(write(tmp_path / "s.jsonl", talk.closes(ms=400))) as view:
        detail = view.parts(4)
    shown, raw = (
        ["".join(span.text for span in line) for line in detail_lines(detail, 100, raw=is_raw)]
        for is_raw in (False, True)
    )
    at = next(place for place, line in enumerate(shown) if "stderr" in line)
    assert "30 lines" in shown[at]
    expected = ["  … 20 lines before: r shows all", *(f"  line {number}" for number in range(21, 31))]
    assert shown[at + 1 : at + 12] == expected
    assert "  line 1" in raw
    assert not any("before" in line for line in raw)


def test_findings_that_are_no_more_than_notes_come_after_the_result(tmp_path: Path) -> None:
    talk = begun()
    talk.asks(2, "tools/call", forecast("Oslo"), ms=100)
    answer = talk.answers(2, text("sunny"), ms=110)
    talk.finds("PROTO-010", answer, "a note", "info")
    talk.finds("TOOL-005", answer, "a fault")
    with open_view(write(tmp_path / "s.jsonl", talk.closes(ms=400))) as view:
        told = "\n".join("".join(span.text for span in line) for line in detail_lines(view.parts(4), 100))
    places = [told.index(words) for words in ("a fault", "sunny", "a note")]
    assert places == sorted(places)
