"""The page calls the states of a call as everybody else does. What it has in JavaScript is compared here."""

import re
from pathlib import Path

import pytest

from mcpproxy.session.filter import STATUS_ALIASES
from mcpproxy.session.outcomes import WORDS, Outcome, unanswered_word
from mcpproxy.ui import page_file

STATIC = Path(page_file.__file__).parent / "static"


def test_the_states_of_calls_have_the_words_of_the_program() -> None:
    text = (STATIC / "format.js").read_text(encoding="utf-8")
    table = re.search(r"export const OUTCOMES = \{(.*?)\n\};", text, re.DOTALL)
    assert table
    rows = re.findall(r'^ +"?([a-z-]+)"?: \["[^"]+", "([^"]*)", "[a-z]+"\],$', table[1], re.MULTILINE)
    assert dict(rows) == {str(outcome): words for outcome, words in WORDS.items()}
    assert f'export const WAITING = "{unanswered_word(running=True)}";' in text


def test_the_filter_reads_the_same_other_words() -> None:
    text = (STATIC / "offline_filter.js").read_text(encoding="utf-8")
    table = re.search(r"const STATUS_ALIASES = (\{.*?\});", text)
    assert table
    pairs = re.findall(r'"?([a-z-]+)"?: "([a-z]+)"', table[1])
    assert dict(pairs) == STATUS_ALIASES


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_no_state_is_asked_for_that_no_call_has(path: Path) -> None:
    asked = re.findall(r'\boutcome [!=]== "([^"]*)"', path.read_text(encoding="utf-8"))
    assert set(asked) <= set(map(str, Outcome))
