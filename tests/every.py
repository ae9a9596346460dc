"""Tests of a table: one test calls its function for each row, and fails with all rows that do not hold.

``@every("rule", RULES)`` takes what ``@pytest.mark.parametrize`` takes. A test costs 1.5 ms of processor time
however little it does, and each worker collects them all; a row costs a call. Where rows are selected, by
``-k`` or by a node id with a bracket, each row is a test of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pytest

MARKER: Final = "every(names, rows, ids): the test is called for each row; see tests/every.py"


def every(
    names: str | Sequence[str], rows: Iterable[object], ids: Callable[[Any], object] | None = None
) -> pytest.MarkDecorator:
    """Mark a test that is to hold of each row. Its fixtures are those of the test, shared by the rows."""
    return pytest.mark.every(names, list(rows), ids)


def singly(config: pytest.Config) -> bool:
    """Whether rows are selected, so that each is a test."""
    return bool(config.option.keyword) or any("[" in argument for argument in config.args)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for mark in metafunc.definition.iter_markers("every"):
        names, rows, ids = mark.args
        if singly(metafunc.config):
            metafunc.parametrize(names, rows, ids=ids)
        else:
            metafunc.parametrize(_split(names), [[None] * len(_split(names))], ids=["every"])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call the test for each row, unless a row is a test."""
    mark = pyfuncitem.get_closest_marker("every")
    if mark is None or singly(pyfuncitem.config):
        return None
    names, rows, ids = _split(mark.args[0]), *mark.args[1:]
    wanted = pyfuncitem._fixtureinfo.argnames  # pyright: ignore[reportPrivateUsage] # as pytest does it
    fixtures = {name: pyfuncitem.funcargs[name] for name in wanted if name not in names}
    failures: dict[str, Exception] = {}
    for values, name in named(names, rows, ids):
        try:
            pyfuncitem.obj(**fixtures, **dict(zip(names, values, strict=True)))
        except Exception as error:
            error.add_note(f"row: {name}")
            failures[name] = error
    if failures:
        raise ExceptionGroup(
            f"{len(failures)} of {len(rows)} rows: {', '.join(failures)}", list(failures.values())
        )
    return True


def _split(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def named(
    names: Sequence[str], rows: Sequence[Any], ids: Callable[[Any], object] | None
) -> Iterator[tuple[Sequence[object], str]]:
    """Yield the values of each row and what it is called in a failure."""
    parameters = type(pytest.param())
    for row in rows:
        if isinstance(row, parameters):
            values, name = row.values, row.id
        else:
            values, name = ([row] if len(names) == 1 else row), None
        if name is None:
            name = "-".join(str(ids(value) if ids else value) for value in values)
        yield values, str(name)[:200]
