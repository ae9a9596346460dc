"""Peers are installed once, whole or not at all, however many workers want them at the same time."""

import os
import threading
from pathlib import Path

import pytest

from tests.peers import fixtures, install


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MCPPROXY_TEST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_workers_that_race_build_one_environment(cache: Path) -> None:
    built: list[Path] = []
    started = threading.Barrier(4, timeout=60)

    def build(folder: Path) -> None:
        built.append(folder)
        folder.mkdir()
        (folder / "peer").write_text("installed", encoding="utf-8")

    def worker() -> None:
        started.wait()
        install.environment("peer", ("peer==1",), build)

    workers = [threading.Thread(target=worker) for _ in range(4)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join(60)

    assert len(built) == 1
    (environment,) = (path for path in cache.iterdir() if path.is_dir())
    assert (environment / "peer").read_text(encoding="utf-8") == "installed"


def test_a_failed_build_leaves_nothing_behind(cache: Path) -> None:
    def build(folder: Path) -> None:
        folder.mkdir()
        (folder / "half").touch()
        raise install.PeerUnavailableError("no network: name resolution failed")

    with pytest.raises(install.PeerUnavailableError):
        install.environment("peer", ("peer==1",), build)

    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_a_failed_build_is_not_tried_again_in_the_same_run(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def build(folder: Path) -> None:
        tried.append(os.environ["PYTEST_XDIST_TESTRUNUID"])
        raise install.PeerUnavailableError("no network: name resolution failed")

    for run in ("one", "one", "two"):
        monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", run)
        with pytest.raises(install.PeerUnavailableError, match="no network: name resolution failed"):
            install.environment("peer", ("peer==1",), build)

    assert tried == ["one", "two"]


def test_other_pins_are_another_environment(cache: Path) -> None:
    folders = [install.environment("peer", (pin,), Path.mkdir) for pin in ("peer==1", "peer==2", "peer==1")]

    assert folders[0] == folders[2] != folders[1]


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_missing_peer_fails_where_ci_is_set_and_skips_elsewhere(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)

    with pytest.raises(outcome, match="no network: gone"):
        fixtures.had(install.PeerUnavailableError("no network: gone"))
