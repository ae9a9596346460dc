"""What a person sees of the twelve situations, at 80 columns and 24 lines."""

from pathlib import Path
from typing import Final

import pytest

from tests.tui.sitting import sit, sitting
from tests.view.situations import SITUATIONS, write

SEEN: Final[dict[str, tuple[str, ...]]] = {
    "failed tool": (
        " desk 2.1 → weather 1.4  3 calls, 1 failed  2025-11-25",
        '  4 ✗ → forecast {"city":"Atlantis"} ⇒ tool error: no such city: Atlant… 12.0 ms',
        '     "content": [{"type": "text", "text": "no such city: Atlantis"}],',
    ),
    "hanging call": (
        " desk 2.1 → weather 1.4  3 calls, 1 unanswered  2025-11-25",
        '  4 … → forecast {"city":"Oslo"} ⇒ unanswered: client left after 5.00 s…  5.10 s',
    ),
    "cancelled call": (
        '  4 ⊘ → forecast {"city":"Oslo"} ⇒ cancelled: too slow                    800 ms',
        '   "params": {"requestId": 2, "reason": "too slow"}}',
    ),
    "slow call": ('  4 ✓ → archive {"day":"1969-07-20"} ⇒ clear                              4.20 s',),
    "wrong id": (
        '  4 … → forecast {"city":"Oslo"} ⇒ unanswered: answered with the id "2"…  4.90 s',
        "  5 · ← answer to no request ⇒ Oslo: sunny                            ✗1",
    ),
    "server request in a call": (
        '  4 ✓ → forecast {"city":"Springfield"} ⇒ Springfield, Ohio: rain         2.05 s',
        '  5 ✓   ↳ ← elicitation/create Which Springfield? ⇒ {"action":"accept",…  2.00 s',
        "✓ tools/call forecast  ok  2.05 s",
    ),
    "progress": (
        '  4 ✓ → forecast {"city":"Oslo"} ⇒ Oslo: sunny                            250 ms',
        "← answer  frame 12  +250 ms",
    ),
    "7 kB result": (
        '  4 ✓ → archive {"day":"2026-11-20"} ⇒ station 0\\n00:00 wind 0 m/s, clo… 30.0 ms',
        "✓ tools/call archive  ok  30.0 ms  id 2  at 0.100 s  107 B → 6.94 kB",
    ),
    "two sessions": (
        " desk 1 → weather 1.4 and 1 more session  4 calls  2025-11-25",
        "   ├ 5e6f7a8b phone    2",
        '  4 ✓ → forecast {"city":"Lima"} ⇒ Lima: fog     32.0 ms',
    ),
    "HTTP with SSE": (
        '  2 ✓ → forecast {"city":"Oslo"} ⇒ Oslo: sunny                           40.0 ms',
        "  3 ⊖ → GET /mcp ⇒ declined: 405                                         2.00 ms",
    ),
    "server crash": (
        " desk 2.1 → weather 1.4  3 calls, 1 unanswered, the server exited with 1",
        '  4 … → forecast {"city":"Oslo"} ⇒ unanswered: server exited with 1: Ze… 10.0 ms',
        "with 1. On stderr: ZeroDivisionError: division by zero.",
    ),
    "finding": (
        '  4 ✓ → forecast {"city":"Oslo"} ⇒ Oslo: sunny                        ▲1 12.0 ms',
        "  5 · ← not a message looking up Oslo ...                             ✗1",
        "▲ warning RES-004 unusual-not-found-code  frame 8",
        "  Instead: Use -32002 up to 2025-11-25, and -32602 from 2026-07-28 on.",
    ),
}


def test_every_situation_is_looked_at() -> None:
    assert SEEN.keys() == SITUATIONS.keys()


@pytest.mark.parametrize("name", SEEN)
def test_a_situation_is_seen_at_a_glance(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "session.jsonl", SITUATIONS[name])

    async def scene() -> None:
        async with sitting(path) as person:
            await person.presses("j", "j", "j")
            await person.sees(*SEEN[name])

    sit(scene)


@pytest.mark.parametrize("name", SEEN)
def test_a_large_window_says_the_same_in_full(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "session.jsonl", SITUATIONS[name])
    numbers = [line[:3] for line in SEEN[name] if line[2:3].isdigit()]

    async def scene() -> None:
        async with sitting(path, 200, 60) as person:
            await person.sees("tools/call ", "time   call, arguments ⇒ answer")
            lines = person.screen().splitlines()
            assert max(map(len, lines)) <= 200
            for number in numbers:
                assert any(
                    line.lstrip().startswith(number.strip()) or f" {number} " in line for line in lines
                )

    sit(scene)
