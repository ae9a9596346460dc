"""A body that is only counted is JSON without its long strings, wherever its parts begin."""

import json
from typing import Any, Final

import pytest

from mcpproxy.record.recorder.model.long_strings import LongStrings

LONG: Final = "picture " * 1000
BODY: Final[dict[str, Any]] = {
    "tools": [{"name": "greet", "description": LONG}, {"name": "a [b], {c}: d"}],
    "said": [f'"{LONG}\\', f"{LONG}\\\\", '"', "\\", f'{LONG}"{LONG}', "short"],
    "numbers": [*range(3000)],
}
TEXT: Final = json.dumps(BODY).encode()
WITHOUT: Final[dict[str, Any]] = {
    "tools": [{"name": "greet", "description": ""}, {"name": "a [b], {c}: d"}],
    "said": ["", "", "", "", "", "short"],
    "numbers": [*range(3000)],
}


def without(text: bytes, *places: int) -> dict[str, Any]:
    strings = LongStrings()
    parts = (text[left:right] for left, right in zip((0, *places), (*places, None), strict=True))
    return json.loads(b"".join(map(strings.without, parts)))


def test_a_whole_body() -> None:
    assert without(TEXT) == WITHOUT


@pytest.mark.parametrize("length", [16 << 10, (16 << 10) + 1, (16 << 10) + 3])
def test_a_body_in_parts_has_the_tools_of_the_whole(length: int) -> None:
    kept = without(TEXT, *range(length, len(TEXT), length))
    assert (kept["tools"], kept["numbers"]) == (WITHOUT["tools"], WITHOUT["numbers"])


def test_a_part_may_begin_behind_any_backslash() -> None:
    for at in (place for place, sign in enumerate(TEXT, 1) if sign == ord("\\")):
        assert without(TEXT, at)["tools"] == WITHOUT["tools"]
