"""A pattern that is compiled later finds the same, and is compiled once."""

import re

import pytest

from mcpproxy.base.patterns import pattern


def test_it_finds_what_the_compiled_one_finds() -> None:
    text = "id=1, ID=22"
    for flags in (0, re.IGNORECASE):
        later, at_once = pattern(r"id=(\d+)", flags), re.compile(r"id=(\d+)", flags)
        assert later.findall(text) == at_once.findall(text)
        assert [found.span() for found in later.finditer(text, 2)] == [
            found.span() for found in at_once.finditer(text, 2)
        ]
        assert later.sub("x", text) == at_once.sub("x", text)
        assert later.split(text) == at_once.split(text)
        for method in ("match", "fullmatch", "search"):
            assert bool(getattr(later, method)(text)) == bool(getattr(at_once, method)(text))


def test_bytes_are_searched_too() -> None:
    assert pattern(rb"[\r\n]").search(b"a\nb") is not None


def test_it_is_compiled_once_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_(text: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(text)
        return original(text, flags)

    original = re.compile
    monkeypatch.setattr(re, "compile", compile_)
    later = pattern("a+")
    assert compiled == []
    assert later.match("aa")
    assert later.search("ba")
    assert compiled == ["a+"]


def test_an_error_in_it_is_raised_at_its_first_use() -> None:
    later = pattern("(")
    with pytest.raises(re.error):
        later.match("")
