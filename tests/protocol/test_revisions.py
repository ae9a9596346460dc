"""A revision is a name with a place, not a number."""

import pytest

from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS, known, since, until


def test_each_revision_belongs_to_one_era() -> None:
    assert STATEFUL + STATELESS == REVISIONS
    assert STATELESS == ("2026-07-28",)


@pytest.mark.parametrize("name", ["", "draft", "2026-07-29", "2025-11-2", 20251125, None, ["2025-11-25"]])
def test_an_unknown_name_is_no_revision(name: object) -> None:
    assert not known(name)


@pytest.mark.parametrize("index", range(len(REVISIONS)))
def test_a_revision_splits_the_list(index: int) -> None:
    revision = REVISIONS[index]
    assert known(revision)
    assert since(revision)[0] == revision
    assert until(revision) + since(revision) == REVISIONS
    assert revision not in until(revision)


def test_an_unknown_name_is_never_newer() -> None:
    with pytest.raises(ValueError, match="is no published revision"):
        since("3000-01-01")
    with pytest.raises(ValueError, match="is no published revision"):
        until("3000-01-01")
