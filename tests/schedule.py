"""How ``pytest -n auto`` shares the tests out: what takes long first, and what shares something together.

A test that drives programs waits for them most of its time, so there are more workers than cores. Files stay
whole, so that what a module reads or judges once is read or judged once. The exception are tests of real
peers: they go out one by one, but those of a pair of peers together, which lets them share one recording.
"""

import os
from typing import Final

from xdist.scheduler import LoadScopeScheduling  # pyright: ignore[reportMissingTypeStubs] # they are inline

SINGLY: Final = (
    "tests/test_conformance.py",
    "tests/test_real_http.py",
    "tests/test_real_sessions.py",
    "tests/replay/test_server_real.py",
    "tests/replay/test_client_real.py",
    "tests/validate/",
    "tests/test_under_load.py",
    "tests/recorder/test_memory.py",
    "tests/test_oauth.py",
)
"""Files, or folders of them, with long tests: they go out first and one by one."""

EARLY: Final = (
    "tests/test_pytest_plugin.py",
    "tests/rules/",
    "tests/replay/",
    "tests/live/",
    "tests/relay/",
    "tests/recorder/",
    "tests/test_survival.py",
)
"""What takes long as a whole: it goes out next. All the rest follows."""


class Schedule(LoadScopeScheduling):
    """Gives a worker a file, a pair of real peers or a single long test, in the order of :func:`rank`."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


def scope(nodeid: str) -> str:
    """The name of what goes to one worker as a whole.

    A case such as ``python 1 - everything, python 2`` belongs to the pair before its comma.
    """
    file, _, test = nodeid.partition("::")
    if not file.startswith(SINGLY):
        return file
    case = test.partition("[")[2].rstrip("]")
    return case.partition(", ")[0] if " - " in case else nodeid


def rank(nodeid: str) -> int:
    """The place of a test in the queue; equals keep their order."""
    files = SINGLY + EARLY
    return next((place for place, file in enumerate(files) if nodeid.startswith(file)), len(files))


def workers() -> int:
    """How many processes run tests at a time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + min(cores, 2)
