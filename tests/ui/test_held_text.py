"""A held message as a text, and the bytes of what somebody has made of it."""

import pytest

from mcpproxy.show.ui.held_text import edited, shown

RAW = '{"jsonrpc": "2.0","id":18446744073709551617, "params":{"a":[1.0,{}],"name":"é"}, "x":1,"x":2}'.encode()
TEXT = """\
{
  "jsonrpc": "2.0",
  "id": 18446744073709551617,
  "params": {
    "a": [
      1.0,
      {}
    ],
    "name": "é"
  },
  "x": 1,
  "x": 2
}"""


def test_every_token_of_a_message_is_shown() -> None:
    assert shown(RAW) == TEXT


@pytest.mark.parametrize(
    ("old", "new", "old_bytes", "new_bytes"),
    [
        ("2.0", "3.0", b'"2.0"', b'"3.0"'),
        ("1.0,\n      {}", "1.0", b"1.0,{}", b"1.0"),
        ('"é"', '"é",\n    "more": [ ]', '"é"'.encode(), '"é","more":[]'.encode()),
        ('  "x": 1,\n', "", b'"x":1,', b""),
        ("{\n", '{\n  "first": 0,\n', b"{", b'{"first":0,'),
        ('"x": 2\n', '"x": 2, "y": 3', b'"x":2', b'"x":2,"y":3'),
    ],
)
def test_what_is_not_edited_keeps_its_bytes(old: str, new: str, old_bytes: bytes, new_bytes: bytes) -> None:
    text = TEXT.replace(old, new, 1)
    assert text != TEXT
    assert edited(RAW, text) == RAW.replace(old_bytes, new_bytes, 1)


@pytest.mark.parametrize(
    "raw",
    [
        RAW,
        b"{}",
        b" [ ]\r",
        b'"a"',
        b"not JSON \xff\r\n\t",
        b'{"a": "\xff\xfe"}',
        '{"hidden": "a\u202eb\u200b\U000e0041"}'.encode(),
        b'{"escaped": "\\u0041\\/\\ud83d\\ude00"}',
        b'{"a": NaN}',
        b'{"line":"a\nb"}',
        b"",
        b"[" * 5000 + b"]" * 5000,
        b'{"n": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_text_that_is_not_edited_is_the_message(raw: bytes) -> None:
    assert edited(raw, shown(raw)) == raw
    as_a_browser_has_it = shown(raw).replace("\r\n", "\n").replace("\r", "\n")
    assert edited(raw, as_a_browser_has_it) == raw


def test_other_spaces_are_no_edit() -> None:
    assert edited(RAW, TEXT.replace("\n", "  ")) == RAW


def test_what_nobody_can_see_is_shown_as_an_escape_and_stays() -> None:
    raw = '{"hidden": "a\u202eb", "n":1}'.encode()
    assert '"a\\u202eb"' in shown(raw)
    assert edited(raw, shown(raw).replace("1", "2")) == raw.replace(b"1", b"2")


def test_a_byte_that_is_not_utf_8_stays_beside_an_edit() -> None:
    raw = b'{"a":"\xff","b": 1}'
    assert edited(raw, shown(raw).replace("1", "2")) == b'{"a":"\xff","b": 2}'


def test_what_is_not_json_is_given_as_it_was_written() -> None:
    assert edited(RAW, '{"jsonrpc": ') == b'{"jsonrpc": '
    assert edited(b"garbage\r", "[1]") == b"[1]"


def test_a_character_that_no_bytes_stand_for_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        edited(b"x", "\ud800")
