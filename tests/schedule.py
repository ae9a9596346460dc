"""How ``pytest -n auto`` distributes the tests among its workers: long tests first.

A test that drives programs mostly waits for them, so there are more workers than cores: on two cores, four
workers left a third of the processors idle, and six leave next to nothing. The tests of a file run in one
worker, so that what the module reads or judges once is not repeated. Long tests run one by one, in any
worker, but tests of the same pair of real peers run together, because they share a recording.
"""

import os
from typing import Final

from xdist.scheduler import LoadScopeScheduling  # pyright: ignore[reportMissingTypeStubs] # they are inline

SINGLY: Final = (
    "tests/test_conformance.py",
    "tests/test_real_http.py",
    "tests/test_real_sessions.py",
    "tests/bridge/test_real.py",
    "tests/replay/test_server_real.py",
    "tests/replay/test_client_real.py",
    "tests/validate/",
    "tests/windows/",
    "tests/test_attacks.py",
    "tests/test_under_load.py",
    "tests/recorder/test_memory.py",
    "tests/test_oauth.py",
    "tests/real_hosts/",
    "tests/client_tests/",
)
"""Files, or folders of files, with long tests: they are distributed first, test by test."""

EARLY: Final = (
    "tests/ui/",
    "tests/fleet/",
    "tests/agents/",
    "tests/rules/",
    "tests/fuzz/",
    "tests/intercept/test_closed_gate.py",
    "tests/test_pytest_plugin.py",
    "tests/cli/test_hostile_messages.py",
    "tests/test_documents.py",
    "tests/recorder/",
    "tests/hosts/",
    "tests/relay/",
    "tests/intercept/",
    "tests/replay/",
    "tests/bridge/",
    "tests/otel/",
    "tests/tui/",
    "tests/cli/test_hostile_text.py",
    "tests/test_structure.py",
    "tests/view/",
    "tests/export/",
    "tests/live/",
    "tests/test_kills.py",
    "tests/fuzzers/",
    "tests/test_recipes.py",
    "tests/test_survival.py",
)
"""Files, or folders of files, that take long as a whole, the longest first. All others come after them."""

TOGETHER: Final = (("tests/rules/", "tests/test_new_revision.py"),)
"""Files that one worker runs, because they share verdicts: each session of a rule is judged once."""


class Schedule(LoadScopeScheduling):
    """Gives a worker a file, the tests of a pair of peers, or one long test, in the order of :func:`rank`."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


def scope(nodeid: str) -> str:
    """Return the name of the group of tests, run by one worker, that a test belongs to.

    A case such as ``python 1 - everything, python 2`` belongs to the pair before its comma.
    """
    file, _, test = nodeid.partition("::")
    for group in TOGETHER:
        if file.startswith(group):
            return group[0]
    if not file.startswith(SINGLY):
        return file
    case = test.partition("[")[2].rstrip("]")
    return case.partition(", ")[0] if " - " in case else nodeid


def rank(nodeid: str) -> int:
    """Return the position of a test in the queue; tests of the same rank keep their order."""
    files = SINGLY + EARLY
    return next((place for place, file in enumerate(files) if nodeid.startswith(file)), len(files))


def workers() -> int:
    """Return the number of processes that run tests."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + min(2 * cores, 4)
