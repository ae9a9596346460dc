"""Sort the rows of a recording in steps: while Python sorts a million rows at once, no other thread runs."""

from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from operator import add
from typing import Final, TypeAlias

from mcpproxy.judge.session.outcomes import Outcome
from mcpproxy.read.view.calls import Progress
from mcpproxy.read.view.index.columns import OUTCOMES
from mcpproxy.read.view.index.indexed_trace import IndexedTrace

Rows: TypeAlias = "array[int]"
"""Numbers of rows, from 1."""

_STEP_ROWS: Final = 50_000
"""How many rows are sorted in one step, which takes some 20 ms."""

_NO_LATENCY: Final = (1 << 63) - 1
"""Stands for the latency of a row that has none, so that the row comes last."""

_OUTCOME_ORDER: Final = tuple(
    OUTCOMES.index(outcome)
    for outcome in (
        *(Outcome.TOOL_ERROR, Outcome.RPC_ERROR, Outcome.HTTP_ERROR, Outcome.REFUSED, Outcome.UNANSWERED),
        *(
            Outcome.UNREADABLE,
            Outcome.CANCELLED,
            Outcome.INPUT_REQUIRED,
            Outcome.DECLINED,
            Outcome.OK,
            Outcome.NONE,
        ),
    )
)
"""Outcomes in the order in which a person wants to see them."""


def check_order(order: str) -> str:
    """Return ``order`` if it is valid.

    It is empty for the order of the recording, or a key of ``_SORT_KEYS``; with a ``-`` before it, the
    largest come first.

    Raises:
        ValueError: rows cannot be sorted by ``order``.
    """
    if order.removeprefix("-") not in ("", *_SORT_KEYS) or order == "-":
        raise ValueError(f"order: rows are sorted by {', '.join(_SORT_KEYS)}")
    return order


def sort_rows(index: IndexedTrace, rows: Sequence[int], order: str) -> Generator[Progress, None, Rows]:
    """Return rows in an order that ``check_order`` allows and that is not empty; yield the progress.

    Equal rows keep their order in ``rows``.
    """
    falls = order.startswith("-")
    key = _SORT_KEYS[order.removeprefix("-")](index, falls).__getitem__
    parts: list[list[int]] = []
    for start in range(0, len(rows), _STEP_ROWS):
        parts.append(sorted(rows[start : start + _STEP_ROWS], key=key, reverse=falls))
        yield Progress(start, len(rows), len(rows))
    while len(parts) > 1:
        merged: list[list[int]] = []
        for left in range(0, len(parts), 2):
            both = [row for part in parts[left : left + 2] for row in part]
            both.sort(key=key, reverse=falls)  # this merges two sorted halves
            merged.append(both)
            yield Progress(len(rows), len(rows), len(rows))
        parts = merged
    return array("I", parts[0] if parts else [])


def _by_time(index: IndexedTrace, _: bool) -> Sequence[int]:
    return index.columns.started_ns


def _by_outcome(index: IndexedTrace, _: bool) -> Sequence[int]:
    ranks = bytes(_OUTCOME_ORDER.index(number) if number in _OUTCOME_ORDER else 255 for number in range(256))
    return index.columns.outcome.tobytes().translate(ranks)


def _by_method(index: IndexedTrace, _: bool) -> Sequence[int]:
    names, unnamed = index.reader.names(), index.columns.unnamed
    order = sorted(range(len(names)), key=lambda n: (n == unnamed, names[n][0], names[n][1] or ""))
    ranks = array("I", [0]) * max(1, len(names))
    for rank, number in enumerate(order):
        ranks[number] = rank
    return array("I", map(ranks.__getitem__, index.columns.name))


def _by_latency(index: IndexedTrace, falls: bool) -> Sequence[int]:
    """Return the latencies, or how long open requests have waited; rows with neither come last.

    ``falls`` is true if the largest come first.
    """
    columns, now_ns = index.columns, index.now_ns()
    no_answer, none = OUTCOMES.index(Outcome.UNANSWERED), -1 if falls else _NO_LATENCY
    return array(
        "q",
        (
            latency_ns if latency_ns >= 0 else max(0, now_ns - started_ns) if outcome == no_answer else none
            for latency_ns, started_ns, outcome in zip(
                columns.latency_ns, columns.started_ns, columns.outcome, strict=True
            )
        ),
    )


def _by_bytes(index: IndexedTrace, _: bool) -> Sequence[int]:
    return array("Q", map(add, index.columns.request_bytes, index.columns.answer_bytes))


_SORT_KEYS: Final[Mapping[str, Callable[[IndexedTrace, bool], Sequence[int]]]] = {
    "time": _by_time,
    "outcome": _by_outcome,
    "method": _by_method,
    "latency": _by_latency,
    "bytes": _by_bytes,
}
