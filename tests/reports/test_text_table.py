"""Tables that are wider than the terminal."""

from mcpproxy.base.style import Style
from mcpproxy.read.reports.text_table import fitted, table, table_width

ROWS = [("CALLS", "MAX", "CALL"), ("12", "1.00 ms", "tools/call forecast"), ("3", "-", "ping")]


def fits(width: int | None) -> list[list[str]]:
    return fitted(ROWS, Style(width=width), cut=("CALL",), left_out=("MAX",), least=9)


def test_what_fits_and_what_goes_into_a_pipe_is_whole() -> None:
    whole = [list(row) for row in ROWS]
    assert fits(None) == whole
    assert fits(table_width(ROWS)) == whole


def test_texts_are_cut_to_the_width() -> None:
    assert table(fits(25)) == [
        "CALLS  MAX      CALL",
        "12     1.00 ms  tools/ca…",
        "3      -        ping",
    ]


def test_columns_are_left_out_before_a_text_is_too_short() -> None:
    assert table(fits(24)) == ["CALLS  CALL", "12     tools/call forec…", "3      ping"]


def test_a_terminal_that_is_too_narrow_for_anything_gets_the_least() -> None:
    assert table(fits(3)) == ["CALLS  CALL", "12     tools/ca…", "3      ping"]
