"""Lines that are wrapped: no character is lost, whatever its width."""

import pytest

from mcpproxy.show.tui.spans import Span, line_width, wrapped

ACCENT = "\u0301"


@pytest.mark.parametrize(
    "text",
    [
        "plain words that go on for more than a line or two of this width",
        "x" * 30 + ACCENT * 1000 + "yyyyEND",
        ACCENT * 100,
        "日本語" * 30,
        "    an indented line whose words need more room than there is",
    ],
)
@pytest.mark.parametrize("width", [2, 7, 20])
def test_a_wrapped_line_has_every_character(text: str, width: int) -> None:
    pieces = list(wrapped((Span(text),), width))
    assert "".join(span.text for piece in pieces for span in piece).replace(" ", "") == text.replace(" ", "")
    assert all(line_width(piece) <= width for piece in pieces)
