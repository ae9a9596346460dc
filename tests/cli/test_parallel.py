"""Several traces at once: the same results in the same order, however they are shared out."""

import os
from pathlib import Path

import pytest

from mcpproxy.cli.checking import parallel


def files(folder: Path, count: int = 5) -> list[str]:
    for number in range(count):
        (folder / f"{number}.jsonl").write_text("x" * number)
    return [str(folder / f"{number}.jsonl") for number in range(count)]


def size_and_process(path: str) -> tuple[int, int]:
    return os.path.getsize(path), os.getpid()


def test_little_is_read_in_this_process(tmp_path: Path) -> None:
    results = list(parallel.results_of(size_and_process, files(tmp_path)))
    assert results == [(number, os.getpid()) for number in range(5)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_much_is_read_in_others_and_told_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "WORTH_BYTES", 1)
    monkeypatch.setattr(parallel, "processors", lambda: 2)
    results = list(parallel.results_of(size_and_process, files(tmp_path)))
    assert [size for size, _ in results] == [0, 1, 2, 3, 4]
    assert os.getpid() not in {process for _, process in results}


def test_a_file_that_is_gone_is_for_the_work_to_tell(tmp_path: Path) -> None:
    def attempt(path: str) -> str:
        return "there" if os.path.exists(path) else "gone"

    paths = [*files(tmp_path, 1), str(tmp_path / "none")]
    assert list(parallel.results_of(attempt, paths)) == ["there", "gone"]
