"""Sizes, durations and colours."""

import pytest

from mcpproxy.base.style import PLAIN, Style, columns, count, decoded, duration, size, tally

SIZES = {
    0: "0 B",
    999: "999 B",
    1000: "1.00 kB",
    9_994: "9.99 kB",
    9_999: "10.0 kB",
    99_960: "100 kB",
    999_499: "999 kB",
    999_500: "1.00 MB",
    33_554_432: "33.6 MB",
    4_200_000_000: "4.20 GB",
}

S = 1_000_000_000
DURATIONS = {
    0: "0.00 µs",
    1_500: "1.50 µs",
    25_000: "25.0 µs",
    999_600: "1.00 ms",
    999_600_000: "1.00 s",
    12_100_000: "12.1 ms",
    338_000_000: "338 ms",
    2_412_000_000: "2.41 s",
    59 * S: "59.0 s",
    60 * S: "1m00s",
    192 * S: "3m12s",
    7_500 * S: "2h05m",
}


@pytest.mark.parametrize(("number", "text"), SIZES.items())
def test_size(number: int, text: str) -> None:
    assert size(number) == text
    assert len(text) <= 7


@pytest.mark.parametrize(("ns", "text"), DURATIONS.items())
def test_duration(ns: int, text: str) -> None:
    assert duration(ns) == text
    assert len(text) <= 7


def test_counts_are_said_as_people_do() -> None:
    assert (count(1, "frame"), count(0, "frame"), count(12_000, "frame")) == (
        "1 frame",
        "0 frames",
        "12,000 frames",
    )
    assert tally(2, 1, 0) == "2 errors, 1 warning"
    assert tally(0, 0, 3) == "3 info"
    assert tally(0, 0, 0) == "no findings"


def test_bytes_that_are_no_text_stay_visible() -> None:
    assert decoded(b"caf\xe9 \x00") == "caf\\xe9 \\u0000"


def test_colours_only_where_they_are_wanted() -> None:
    assert PLAIN.paint("x", "red", "bold") == "x"
    assert Style(colour=True).paint("x", "bold", "red") == "\x1b[1;31mx\x1b[0m"
    assert Style(colour=True).paint("", "red") == ""


def test_shortening_shows() -> None:
    assert PLAIN.shorten("abcdef", 6) == "abcdef"
    assert PLAIN.shorten("abcdefg", 6) == "abcde…"
    assert PLAIN.shorten("abcdefg", 6, keeps_end=True) == "…cdefg"
    assert Style(unicode=False).shorten("abcdefg", 6) == "abc..."
    assert Style(unicode=False).arrow("client") == "->"


FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
FLAGS = "\U0001f1f3\U0001f1f4\U0001f1f5\U0001f1ea"
WAVE, ACUTE = "\U0001f44b\U0001f3fd", "e\u0301"


@pytest.mark.parametrize("whole", [FAMILY, FLAGS[:2], WAVE, ACUTE, "\U0001f3f3\ufe0f\u200d\U0001f308"])
def test_nothing_is_cut_within_what_is_read_as_one_character(whole: str) -> None:
    text = f"ab{whole}{whole}cd"
    heads = {PLAIN.shorten(text, limit).removesuffix("…") for limit in range(1, columns(text))}
    assert heads <= {"", "a", "ab", f"ab{whole}", f"ab{whole}{whole}", f"ab{whole}{whole}c"}
    ends = {PLAIN.shorten(text, limit, keeps_end=True).removeprefix("…") for limit in range(1, columns(text))}
    assert ends <= {"", "d", "cd", f"{whole}cd", f"{whole}{whole}cd", f"b{whole}{whole}cd"}
    assert f"ab{whole}" in heads
    assert f"{whole}cd" in ends
