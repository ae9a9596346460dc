"""What of a stranger's text is written out before it is shown, and what is not."""

import json
import unicodedata
from typing import Final

import pytest

from mcpproxy.base.visible import visible, visible_lines, without_commands
from mcpproxy.record.relay.stderr_line import in_a_log

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

WHOLE: Final = {
    "a family": "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "a profession with a tone of skin": "\U0001f469\U0001f3fd\u200d\u2695\ufe0f",
    "a heart on fire": "\u2764\ufe0f\u200d\U0001f525",
    "a flag of a rainbow": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "a flag of a region": "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f",
    "a flag of a country": "\U0001f1f3\U0001f1f4",
    "keycaps": "1\ufe0f\u20e3#\ufe0f\u20e3",
    "signs that are punctuation or letters": "\u203c\ufe0f\u2139\ufe0f\u3030\ufe0f",
    "a text around one": "so \U0001f468\u200d\U0001f4bb!",
}
"""Emoji sequences, which have invisible characters and stay as they are."""

HOSTILE: Final = {
    "a joiner between letters": ("a\u200db", "a\\u200db"),
    "joiners between signs of ASCII": ("<\u200d>+\u200d=", "<\\u200d>+\\u200d="),
    "a joiner after the last emoji": ("\U0001f469\u200d", "\U0001f469\\u200d"),
    "two joiners": ("\U0001f469\u200d\u200d\U0001f467", "\U0001f469\\u200d\\u200d\U0001f467"),
    "selectors without an emoji": ("a\ufe0f1\ufe0f\ufe0f", "a\\ufe0f1\\ufe0f\\ufe0f"),
    "two selectors": ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f\\ufe0f"),
    "tags without a flag": ("\U000e0067\U000e0062\U000e007f", "\\udb40\\udc67\\udb40\\udc62\\udb40\\udc7f"),
    "a flag of a long text": (
        "\U0001f3f4" + "\U000e0067" * 7 + "\U000e007f",
        "\U0001f3f4" + "\\udb40\\udc67" * 7 + "\\udb40\\udc7f",
    ),
    "a flag without an end": ("\U0001f3f4" + "\U000e0067" * 5, "\U0001f3f4" + "\\udb40\\udc67" * 5),
    "a joiner between tags": ("\U000e0067\u200d\U000e0067", "\\udb40\\udc67\\u200d\\udb40\\udc67"),
    "other characters beside an emoji": (
        "\U0001f469\u200b\u202e\U0001f467",
        "\U0001f469\\u200b\\u202e\U0001f467",
    ),
}
"""Texts that hide something in the characters of which emoji sequences are made."""


@pytest.mark.parametrize(("text", "shown"), [*((text, text) for text in WHOLE.values()), *HOSTILE.values()])
def test_emoji_stay_whole_and_hide_nothing(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(("text", "shown"), SHOWN.values(), ids=SHOWN)
def test_what_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_no_character_of_a_harmful_category_is_left() -> None:
    every = "".join(map(chr, range(0x110000)))
    left = {unicodedata.category(char) for char in visible(every)}
    assert left.isdisjoint({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def test_our_own_line_feeds_may_stay() -> None:
    assert visible_lines("a\x1b\nb\r\n") == "a\\u001b\nb\\r\n"


COMMANDS: Final = {
    "the newer form": ("::error file=a::b", "\\u003a:error file=a::b"),
    "on a later line, after spaces": ("a\n  ::add-mask::b", "a\n  \\u003a:add-mask::b"),
    "the older form, anywhere": ("a ###[error]b", "a ##\\u0023[error]b"),
    "neither": ("a ::b\n# [c]\n:d", "a ::b\n# [c]\n:d"),
}


@pytest.mark.parametrize(("text", "shown"), COMMANDS.values(), ids=COMMANDS)
def test_a_line_is_no_command_for_github(text: str, shown: str) -> None:
    assert without_commands(text) == shown
    assert json.loads(without_commands(json.dumps([text]))) == [text]


def test_only_a_workflow_has_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert in_a_log("::error::a") == "\\u003a:error::a"
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert in_a_log("::error::a") == "::error::a"


@pytest.mark.parametrize("text", [text for text, _ in SHOWN.values()], ids=SHOWN)
def test_json_keeps_its_value(text: str) -> None:
    for written in (json.dumps([text], ensure_ascii=False, indent=1), json.dumps([text])):
        assert json.loads(visible_lines(written)) == [text]
