"""A revision is a name with a place, not a number."""

import pytest

from mcpproxy.protocol.revisions import (
    REVISIONS,
    STATEFUL,
    STATELESS,
    is_shape_known,
    is_stateless,
    since,
    span,
    stateless_of,
    until,
)


def test_each_revision_belongs_to_one_era() -> None:
    assert STATEFUL + STATELESS == REVISIONS
    assert STATELESS[0] == "2026-07-28"


@pytest.mark.parametrize(
    ("candidates", "stateless", "judged"),
    [
        (STATELESS[:1], True, True),
        (STATELESS, True, True),
        (STATEFUL[:1], False, True),
        (STATEFUL, False, False),
        ((STATEFUL[-1], STATELESS[0]), False, False),
        (("2099-01-01",), False, True),
        ((), False, False),
    ],
)
def test_candidates_are_of_an_era(candidates: tuple[str, ...], stateless: bool, judged: bool) -> None:
    assert is_stateless(candidates) == stateless
    assert is_shape_known(candidates) == judged


@pytest.mark.parametrize(
    ("candidates", "found"),
    [(REVISIONS, STATELESS), (STATEFUL, STATELESS), ((), STATELESS), (STATELESS[:1], STATELESS[:1])],
)
def test_the_stateless_ones_among_candidates(candidates: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert stateless_of(candidates) == found


def test_a_span_ends_before_its_end() -> None:
    assert span("-", "-") == REVISIONS
    assert span("2025-03-26", "-") == since("2025-03-26")
    assert span("-", "2025-03-26") == until("2025-03-26")
    assert span("2025-03-26", "2025-11-25") == ("2025-03-26", "2025-06-18")


@pytest.mark.parametrize("index", range(len(REVISIONS)))
def test_a_revision_splits_the_list(index: int) -> None:
    revision = REVISIONS[index]
    assert since(revision)[0] == revision
    assert until(revision) + since(revision) == REVISIONS
    assert revision not in until(revision)


def test_an_unknown_name_is_never_newer() -> None:
    with pytest.raises(ValueError, match="is not a published revision"):
        since("3000-01-01")
    with pytest.raises(ValueError, match="is not a published revision"):
        until("3000-01-01")
