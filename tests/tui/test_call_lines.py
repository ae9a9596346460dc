"""The tones of a call in the list, which the theme turns into colours."""

from pathlib import Path

import pytest

from mcpproxy.base.style import duration
from mcpproxy.judge.session.outcomes import CallCounts
from mcpproxy.read.view.view import open_view
from mcpproxy.show.tui.call_lines import call_line, loss_tone
from tests.view.situations import SITUATIONS, write

TONES = {
    "failed tool": {"✗ ": "bad", "12.0 ms": "dim"},
    "server crash": {"… ": "bad", "10.0 ms": "bad"},
    "hanging call": {"… ": "bad", "5.10 s": "bad"},
    "cancelled call": {"⊘ ": "warning"},
    "slow call": {"✓ ": "good", "4.20 s": "warning"},
}


@pytest.mark.parametrize("name", TONES)
def test_what_fails_a_call_has_one_tone_and_what_was_slow_or_given_up_another(
    name: str, tmp_path: Path
) -> None:
    with open_view(write(tmp_path / "s.jsonl", SITUATIONS[name])) as view:
        spans = {span.text.lstrip() or span.text: span.tone for span in call_line(view.call(4), 200)}
    assert TONES[name].items() <= spans.items()


def test_a_call_that_waits_has_not_failed_yet(tmp_path: Path) -> None:
    with open_view(write(tmp_path / "s.jsonl", SITUATIONS["hanging call"])) as view:
        spans = call_line(view.call(4), 200, waited_ns=2_000_000_000)
    assert {span.tone for span in spans if span.text.strip() in ("…", duration(2_000_000_000))} == {"warning"}


def test_numbers_of_calls_have_the_tones_of_the_calls() -> None:
    counts = CallCounts(9, failed=1, unanswered=1, cancelled=1, refused=1)
    tones = {word: loss_tone(word) for _, word in counts.unsuccessful(running=False)}
    assert tones == {"failed": "bad", "refused": "bad", "unanswered": "bad", "cancelled": "warning"}
    waiting = CallCounts(1, failed=0, unanswered=1).unsuccessful(running=True)
    assert [loss_tone(word) for _, word in waiting] == ["warning"]
    declined = CallCounts(1, failed=0, unanswered=0, declined=1).unsuccessful(running=False)
    assert [loss_tone(word) for _, word in declined] == ["dim"]
