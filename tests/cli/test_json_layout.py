"""JSON laid out for people: the same tokens, over lines."""

import json

import pytest

from mcpproxy.cli.calls.json_layout import laid_out

VALUES = (
    '{"a":[1,2,{"b":null}],"c":"x"}',
    "[]",
    '{"empty":{},"none":[],"deep":[[[[]]]]}',
    '"a text"',
    "18446744073709551617",
    '{"a":1,"a":2.50,"quoted":"\\"{[,:]}\\"","slash":"\\\\n"}',
    '{"long":[' + ",".join('"0123456789"' for _ in range(30)) + "]}",
)


@pytest.mark.parametrize("text", VALUES)
@pytest.mark.parametrize("width", [1, 20, 80])
def test_nothing_is_lost(text: str, width: int) -> None:
    lines = list(laid_out(text, width))
    assert json.loads("\n".join(lines)) == json.loads(text)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_what_is_short_stays_on_a_line() -> None:
    assert list(laid_out('{"a":[1,2],"b":{"c":3}}', 14)) == ["{", '  "a": [1, 2],', '  "b": {"c": 3}', "}"]


def test_the_lines_of_a_text_become_lines() -> None:
    assert list(laid_out('{"text":"one\\ntwo\\\\n"}')) == ["{", '  "text": "one', 'two\\\\n"', "}"]


@pytest.mark.parametrize("text", ["{", "]}", '{"a":', "{]", "no JSON at all", '{"a":"cut'])
def test_any_text_gives_lines(text: str) -> None:
    assert "".join("".join(laid_out(text)).split())


INNER = '{"rows":[{"id":0,"note":"a\\\\nb"},{"id":18446744073709551617}],"a":1,"a":2}'


def test_json_in_a_text_is_laid_out_where_that_is_asked_for() -> None:
    text = f'{{"content":[{{"type":"text","text":{json.dumps(INNER)}}}],"isError":false}}'
    assert list(laid_out(text, 40, opens_strings=True)) == [
        "{",
        '  "content": [',
        "    {",
        '      "type": "text",',
        '      "text": JSON in a text:',
        "        {",
        '          "rows": [',
        '            {"id": 0, "note": "a\\\\nb"},',
        '            {"id": 18446744073709551617}',
        "          ],",
        '          "a": 1,',
        '          "a": 2',
        "        }",
        "    }",
        "  ],",
        '  "isError": false',
        "}",
    ]
    assert json.loads("\n".join(laid_out(text, 40))) == json.loads(text)


@pytest.mark.parametrize("said", ["{}", "[]", "{not JSON}", "[1] and more", "a [1]", '"{"', "[" * 100_000])
def test_any_other_text_stays_a_string(said: str) -> None:
    text = json.dumps({"text": said})
    assert list(laid_out(text, 200_000, opens_strings=True)) == list(laid_out(text, 200_000))


def test_a_short_text_is_opened_too() -> None:
    lines = laid_out('[{"text":" [1, 2]"}]', opens_strings=True)
    assert list(lines) == ["[", "  {", '    "text": JSON in a text:', "      [1, 2]", "  }", "]"]
