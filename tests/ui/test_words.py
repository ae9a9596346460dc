"""The page calls the states of a call as everybody else does. What it has in JavaScript is compared here."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.base.style import duration
from mcpproxy.base.visible import visible
from mcpproxy.judge.session.filter import STATUS_ALIASES
from mcpproxy.judge.session.outcomes import WORDS, Outcome, unanswered_word
from mcpproxy.show.ui import page_file
from tests.test_visible import HOSTILE, WHOLE

STATIC = Path(page_file.__file__).parent / "static"


def test_the_states_of_calls_have_the_words_of_the_program() -> None:
    text = (STATIC / "format.js").read_text(encoding="utf-8")
    table = re.search(r"export const OUTCOMES = \{(.*?)\n\};", text, re.DOTALL)
    assert table
    rows = re.findall(r'^ +"?([a-z-]+)"?: \["[^"]+", "([^"]*)", "[a-z]+"\],$', table[1], re.MULTILINE)
    assert dict(rows) == {str(outcome): words for outcome, words in WORDS.items()}
    assert f'const WAITING = ["…", "{unanswered_word(running=True)}", "warn"];' in text


def test_the_filter_reads_the_same_other_words() -> None:
    text = (STATIC / "offline_filter.js").read_text(encoding="utf-8")
    table = re.search(r"const STATUS_ALIASES = (\{.*?\});", text)
    assert table
    pairs = re.findall(r'"?([a-z-]+)"?: "([a-z]+)"', table[1])
    assert dict(pairs) == STATUS_ALIASES


def evaluated(expression: str, given: object) -> Any:
    """Return the value of an expression of JavaScript that uses ``given`` and functions of ``format.js``."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("a real peer is not to be had: no Node.js")
    script = f"""
        import {{ readFileSync }} from "node:fs";
        const {{ beyond, duration, peers, visible }} = await import(process.argv[1]);
        const given = JSON.parse(readFileSync(0, "utf8"));
        console.log(JSON.stringify({expression}));
    """
    ran = subprocess.run(
        [node, "--input-type=module", "-e", script, (STATIC / "format.js").as_uri()],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_the_same_characters_are_shown_as_escapes() -> None:
    texts = [*WHOLE.values(), *(text for text, _ in HOSTILE.values())]
    words = '(node) => (typeof node === "string" ? node : [node.props.children].flat().join(""))'
    shown = evaluated(f'given.map((text) => [visible(text)].flat().map({words}).join(""))', texts)
    assert shown == [visible(text) for text in texts]


def test_times_have_the_same_form() -> None:
    ms = [
        0.0021,
        0.338,
        0.9996,
        1.5,
        25.04,
        338.2,
        999.4,
        2413,
        59_990,
        60_000,
        192_700,
        3_599_999,
        3_600_000,
        7_505_000,
    ]
    assert evaluated("given.map(duration)", ms) == [duration(round(each * 1e6)) for each in ms]
    assert duration(60_000_000_000) == "1m00s"


def test_a_cause_does_not_repeat_the_outcome_beside_it() -> None:
    causes = [
        ("HTTP 401", "HTTP 401 Unauthorized. Its body: no token.", "Unauthorized. Its body: no token."),
        ("error -32602", "error -32602: no such tool.", "no such tool."),
        ("tool error", "tool error.", ""),
        ("HTTP 40", "HTTP 401 Unauthorized.", "HTTP 401 Unauthorized."),
        ("", "There was no answer.", "There was no answer."),
    ]
    told = evaluated("given.map(([words, cause]) => beyond(words, cause))", [each[:2] for each in causes])
    assert told == [each[2] for each in causes]


def test_a_session_without_peers_has_its_revision() -> None:
    one = {"client": "", "server": "", "revision": "2026-07-28", "protocol": "mcp"}
    given = [one, {**one, "revision": ""}, {**one, "server": "weather"}]
    words = ["MCP 2026-07-28", "", "weather, 2026-07-28"]
    assert evaluated("given.map((one) => peers(one, false))", given) == words


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_no_state_is_asked_for_that_no_call_has(path: Path) -> None:
    asked = re.findall(r'\boutcome [!=]== "([^"]*)"', path.read_text(encoding="utf-8"))
    assert set(asked) <= set(map(str, Outcome))
