"""A test that leaves a descriptor open fails, and so does one that closes another's; no other test does."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.peers.processes import ROOT

CONFTEST: Final = """
import os

import pytest

from tests import descriptors
from tests.descriptors import files_are_closed, files_of_the_module_are_closed, pytest_fixture_setup

descriptors.DEADLINE_S = 1


def opened():
    return os.open(os.devnull, os.O_RDONLY)


def held():
    fd = opened()
    yield fd
    os.close(fd)


of_session = pytest.fixture(held, scope="session")
late = pytest.fixture(held, scope="session", name="late")
"""

MODULES: Final = {
    "test_a.py": """
import os
import threading

import pytest

from conftest import held, opened

KEPT = opened()
of_module = pytest.fixture(held, scope="module", name="of_module")
of_test = pytest.fixture(held, name="of_test")


def test_good_fixtures(of_session, of_module, of_test):
    pass


def test_good_fixture_that_is_asked_for_late(request):
    request.getfixturevalue("late")


def test_good_cycle():
    class Holder:
        def __init__(self):
            self.fd, self.me = opened(), self

        def __del__(self):
            os.close(self.fd)

    Holder()


def test_good_thread():
    threading.Timer(0.05, os.close, (opened(),)).start()


def test_bad_open():
    opened()


def test_good_behind_a_bad_one():
    pass


def test_bad_closed():
    os.close(KEPT)


def test_bad_replaced(of_session):
    ends = os.pipe()
    os.dup2(ends[0], of_session)
    for end in ends:
        os.close(end)


def test_failed_with_a_file_open():
    fd = opened()
    assert fd < 0
""",
    "test_b.py": """
import pytest

from conftest import opened


@pytest.fixture(scope="module")
def of_module():
    return opened()


def test_good_first(of_module):
    pass


def test_bad_last(of_module):
    pass
""",
}


def test_who_is_failed(tmp_path: Path) -> None:
    for name, text in {"conftest.py": CONFTEST, **MODULES}.items():
        (tmp_path / name).write_text(text)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    results = re.findall(r"^(PASSED|FAILED|ERROR) \S*::test_(good|bad|failed)_(\w+)", ran.stdout, re.M)
    names = re.findall(r"^def test_(\w+?)_(\w+)", "".join(MODULES.values()), re.M)
    assert [name for outcome, _, name in results if outcome == "ERROR"] == [
        name for kind, name in names if kind == "bad"
    ], ran.stdout
    assert [name for outcome, _, name in results if outcome == "FAILED"] == ["with_a_file_open"]
    assert len([outcome for outcome, *_ in results if outcome == "PASSED"]) == len(names) - 1
    assert "it is open: /dev/null" in ran.stdout
    assert ran.stdout.count("it is closed") >= 1
