"""What of a stranger's text is written out before it is shown, and what is not."""

import json
import unicodedata
from typing import Final

import pytest

from mcpproxy.base.visible import visible, visible_lines

SHOWN: Final = {
    "a clear-screen sequence": ("\x1b[2J", "\\u001b[2J"),
    "a bell": ("ding\x07", "ding\\u0007"),
    "a carriage return": ("a\rb", "a\\rb"),
    "a line of its own": ("a\nb", "a\\nb"),
    "a tab": ("a\tb", "a\\tb"),
    "a deletion": ("a\x7f", "a\\u007f"),
    "a C1 control": ("\x9b31m", "\\u009b31m"),
    "text that turns around": ("\u202eevil\u2066", "\\u202eevil\\u2066"),
    "marks of direction": ("\u200e\u200f\u061c", "\\u200e\\u200f\\u061c"),
    "characters of no width": ("a\u200bb\ufeff\u2060", "a\\u200bb\\ufeff\\u2060"),
    "line separators": ("\u2028\u2029\x85", "\\u2028\\u2029\\u0085"),
    "a lone surrogate": ("\ud800", "\\ud800"),
    "tag characters": ("\U000e0041", "\\udb40\\udc41"),
    "letters that show as nothing": ("\u3164\u115f\uffa0", "\\u3164\\u115f\\uffa0"),
    "variation selectors": ("a\ufe00\U000e0101", "a\\ufe00\\udb40\\udd01"),
    "an emoji stays": ("\u26a0\ufe0f \U0001f600", "\u26a0\ufe0f \U0001f600"),
    "nothing harmful": ("größer → 東京 \\x", "größer → 東京 \\x"),
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.values(), ids=SHOWN)
def test_what_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_no_character_of_a_harmful_category_is_left() -> None:
    every = "".join(map(chr, range(0x110000)))
    left = {unicodedata.category(char) for char in visible(every)}
    assert left.isdisjoint({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def test_our_own_line_feeds_may_stay() -> None:
    assert visible_lines("a\x1b\nb\r\n") == "a\\u001b\nb\\r\n"


@pytest.mark.parametrize("text", [text for text, _ in SHOWN.values()], ids=SHOWN)
def test_json_keeps_its_value(text: str) -> None:
    for written in (json.dumps([text], ensure_ascii=False, indent=1), json.dumps([text])):
        assert json.loads(visible_lines(written)) == [text]
