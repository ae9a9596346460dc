"""No expression that reads the text of others takes a time that grows with the square of the text."""

import re
import signal
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from math import inf
from time import perf_counter
from typing import Any, Final

import pytest

from tests.regular_expressions import PACKAGE, Place, hard_texts, places

LENGTH: Final = 2_000
SUSPICIOUS_S: Final = 0.001
"""With a flaw, a text of this length takes longer; without, most expressions take a tenth of it."""
GROWTH: Final = 16
STEEP: Final = 90.0
"""A text that is ``GROWTH`` times as long takes that many times as long; with a flaw, 256 times. A
repetition of thousands, as in the form of a JSON Web Token, takes 31 times."""
STOPPED_S: Final = 0.8
"""So much of the processor shows a flaw by itself."""

SEEN: Final = {
    "read/importers/detect.py:_CASSETTE": "match",
    "read/importers/detect.py:_HAR": "match",
    "read/importers/detect.py:_HOST_LOG": "search",
    "read/importers/mcp_cassette.py:DOCUMENT": "match",
    "protocol/schema/forms.py:FORMATS": "match",
}
"""What is done with expressions that are handed on before they are used."""

BOUNDED: Final = {
    "judge/checks/server/resources.py:NOT_FOUND": "the first 1,000 characters of an error",
    "judge/checks/utilities/tasks.py:UNKNOWN_TASK": "the first 1,000 characters of an error",
    "hosts/toml_nodes.py:_KEY": "what is before a value on one line of a file of the user",
    "protocol/shapes/lookup.py:_ALTERNATIVE": "the notation of our own shapes",
    "read/reports/fingerprint.py:_VARYING": "the message of a finding, whose texts of peers are shortened",
    "record/relay/stdio/windows_command.py:_QUOTE_AND_BACKSLASHES": "an argument, 8,191 characters at most",
    "record/relay/stdio/windows_command.py:_BACKSLASHES_AT_END": "an argument, 8,191 characters at most",
    "judge/session/filter.py:_VALUE": "a term of a filter, whose quotes have their ends",
    "show/ui/held_text.py:_TOKEN": "JSON that was read before, whose strings have their ends",
}
"""Those that may take longer, since what they read is short or our own: where each is, and what it reads."""

AT_RUN_TIME: Final = {
    "base/patterns.py": "the function that compiles",
    "base/secret_values.py": "the class that compiles",
    "judge/checks/basic/shapes.py": "the notation of our own shapes",
    "judge/checks/engine/dispatch.py": "plain words",
    "judge/checks/hosts/tools.py": "what a table of facts says of a host",
    "judge/checks/server/skills.py": "the words for what a method asks for",
    "cli/commands/redact.py": "what the user wrote",
    "peers/client_tests/served.py": "plain words",
    "send/fleet/closed_files.py": "plain words",
    "hosts/own_server.py": "plain words",
    "hosts/toml_nodes.py": "plain words",
    "gate/intercept/fault_actions.py": "what the user wrote",
    "gate/intercept/fault_effects.py": "what the user wrote",
    "read/prompt/names.py": "the name of a tool as a plain word",
    "protocol/schema/soundness.py": "the notation of our own schemas",
    "record/relay/http/rewrite.py": "the address of a server as a plain word",
    "peers/replay/diff/values.py": "what the user wrote, and the plain words around a mask",
    "read/reports/host_rewrites.py": "what a table of facts says of a host",
    "judge/ruleset/host_facts.py": "what a table of facts says of a host",
    "peers/scripted_model/script_player.py": "a name of our own before two numbers",
    "judge/session/filter.py": "what the user wrote",
    "testing/background.py": "the lines of our own programs",
    "record/trace/json_masking.py": "what the user wrote",
    "read/view/details.py": "plain bytes",
    "read/view/rows/stray_rows.py": "plain words",
}
"""Modules with expressions that are known at run time only, and what they are made of."""

PARTS: Final = sorted(path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir())


@cache
def found() -> dict[str, list[Place]]:
    """Return the expressions of each part of mcpproxy."""
    of_parts: dict[str, list[Place]] = {}
    for place in places():
        of_parts.setdefault(place.path.partition("/")[0].removesuffix(".py"), []).append(place)
    return of_parts


def everything() -> list[Place]:
    return [place for part in found().values() for place in part]


class _TooSlowError(Exception):
    pass


def _stop(number: int, frame: object) -> None:
    raise _TooSlowError


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """One use of an expression is stopped before long: some would take for ever."""
    before = signal.signal(signal.SIGVTALRM, _stop)
    yield
    signal.signal(signal.SIGVTALRM, before)


def _is_stopped(expression: re.Pattern[Any], method: str, text: Any, limit_s: float) -> bool:
    """Whether a use takes more of the processor than it is given; other processes do not count."""
    use = getattr(expression, method)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
    try:
        if method in ("sub", "subn"):
            use("" if isinstance(text, str) else b"", text)
        elif method == "finditer":
            for _ in use(text):
                pass
        else:
            use(text)
    except _TooSlowError:
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return False


def _seconds(expression: re.Pattern[Any], method: str, text: Any) -> float:
    """Return how long a use takes, infinite if it is stopped.

    It is the time of a clock: that of the processor may come in steps which are longer than the use.
    """
    began = perf_counter()
    return inf if _is_stopped(expression, method, text, STOPPED_S) else perf_counter() - began


def flaw(text: str | bytes, flags: int, methods: Iterable[str]) -> str:
    """Return a text that an expression takes too long for, and how it is searched; empty if none is found."""
    expression = re.compile(text, flags)
    for number, short in enumerate(hard_texts(text, flags, LENGTH)):
        for method in methods:
            took_s = _seconds(expression, method, short)
            for _ in range(3):  # another process may have had its turn
                if SUSPICIOUS_S <= took_s < inf:
                    took_s = min(took_s, _seconds(expression, method, short))
            if took_s < SUSPICIOUS_S:
                continue
            long = next(islice(hard_texts(text, flags, LENGTH * GROWTH), number, None))
            if took_s == inf or _is_stopped(expression, method, long, min(STEEP * took_s, STOPPED_S)):
                return f"{method} of {short[:40]!r}… takes {took_s * 1e3:.0f} ms for {len(short)} characters"
    return ""


@pytest.mark.parametrize("part", PARTS)
def test_no_expression_takes_a_time_that_grows_with_the_square_of_the_text(part: str) -> None:
    flaws: list[str] = []
    for place in found().get(part, ()):
        if place.text is not None and place.where not in BOUNDED:
            methods = [SEEN[place.where]] if place.where in SEEN else sorted(place.methods)
            if fault := flaw(place.text, place.flags, methods):
                flaws.append(f"{place.where}: {fault}")
    assert flaws == []


def test_what_is_known_at_run_time_only_is_listed() -> None:
    assert {place.path for place in everything() if place.text is None} == set(AT_RUN_TIME)


def test_the_tables_name_expressions_that_are_there() -> None:
    assert {*BOUNDED, *SEEN} <= {place.where for place in everything() if place.text is not None}
    assert all(
        flaw(place.text, place.flags, place.methods)
        for place in everything()
        if place.where in BOUNDED and place.text
    )


@pytest.mark.parametrize(
    ("text", "method"),
    [
        (r'"(?:[^"\\]|\\.)*+"', "findall"),  # a quote without its end, again and again
        (r" \(id [^)]*\)(?=:)", "sub"),
        (r"([\w-]+)\s*=\s*", "finditer"),  # a name without its sign
        (r"[ \t]*[a-z]*[ \t]*;", "fullmatch"),  # blanks that belong to either side
        (r"(?:(?::[^\r\n]*)?(?:\r\n|\r|\n|\Z))*", "fullmatch"),  # a line end that is one or two
    ],
)
def test_a_flaw_is_found(text: str, method: str) -> None:
    assert flaw(text, 0, [method])
    assert flaw(text.encode(), 0, [method])
