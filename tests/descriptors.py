"""The descriptors that are open, and a watch that fails a test which leaves one open or closes another's.

A test owns what it opens and what its fixtures open. A fixture of a wider scope may open something during the
test that asks for it first, and keep it: that belongs to the fixture, and is looked for at the end of the
module.
"""

import gc
import os
import socket
import stat
import time
from collections.abc import Generator, Iterator, Mapping
from typing import Final, Literal, TypeAlias

import pytest

Identity: TypeAlias = tuple[int, int, bool]
"""Device and inode. Descriptors of the kernel's own files, such as epoll, share one."""

Scope: TypeAlias = Literal["function", "module"]

FOLDER: Final = next((name for name in ("/proc/self/fd", "/dev/fd") if os.path.isdir(name)), "")

DEADLINE_S: Final = 10
"""How long threads and processes that are about to end may keep something open."""

_WIDER: Final[Mapping[Scope, tuple[str, ...]]] = {
    "function": ("class", "module", "package", "session"),
    "module": ("package", "session"),
}

_expected: Final[dict[Scope, dict[int, Identity]]] = {}
"""For each scope that is watched: what must be open at its end."""

_left: Final[dict[int, Identity]] = {}
"""What earlier tests were failed for. Whether it stays or goes, no other test is."""


POOLED_PORTS: Final[set[int]] = set()
"""Servers to which the pool of a library may keep connections; the library decides when it closes them."""


def opened() -> dict[int, Identity]:
    """Return what is open, by number; empty where the system does not list it."""
    found: dict[int, Identity] = {}
    for name in os.listdir(FOLDER) if FOLDER else ():
        try:
            status = os.fstat(int(name))
        except OSError:
            continue  # the descriptor with which they were listed
        found[int(name)] = (status.st_dev, status.st_ino, stat.S_ISSOCK(status.st_mode))
    return found


def sockets() -> set[tuple[int, Identity]]:
    """Return the sockets that are open."""
    found: set[tuple[int, Identity]] = set()
    for number, identity in opened().items():
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                found.add((number, identity))
        except OSError:
            continue  # closed in the meantime
    return found


@pytest.fixture(autouse=True)
def files_are_closed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves a descriptor open, or closes one that is not its own."""
    yield from _watch(request, "function")


@pytest.fixture(autouse=True, scope="module")
def files_of_the_module_are_closed(request: pytest.FixtureRequest) -> Iterator[None]:
    """The same for the fixtures of a module: fails its last test."""
    yield from _watch(request, "module")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    """Let what a fixture opens stay open behind the narrower scopes."""
    if fixturedef.scope == "function":
        return (yield)
    before = opened()
    try:
        return (yield)
    finally:
        new = {number: what for number, what in opened().items() if before.get(number) != what}
        for scope, expected in _expected.items():
            if fixturedef.scope in _WIDER[scope]:
                expected.update(new)


def _watch(request: pytest.FixtureRequest, scope: Scope) -> Iterator[None]:
    """The body of a fixture that is set up before all others of its scope, and torn down after them."""
    failures = request.session.testsfailed
    expected = _expected[scope] = opened()
    yield
    del _expected[scope]
    if opened() == expected or not (changed := _changes(expected)):
        return
    gc.collect()  # what a cycle holds
    deadline = time.monotonic() + DEADLINE_S
    while (changed := _changes(expected)) and time.monotonic() < deadline:
        time.sleep(0.01)  # nothing tells when a thread closes something
    now = opened()
    _left.update({number: now[number] for number in changed if number in now})
    # The traceback of a test that failed may keep its files open.
    assert not changed or request.session.testsfailed > failures, f"left by the test: {changed}"


def _changes(expected: Mapping[int, Identity]) -> dict[int, str]:
    """What has become of each descriptor that is not as ``expected``."""
    now = opened()
    changed: dict[int, str] = {}
    for number in sorted(expected.keys() | now.keys()):
        before, after = expected.get(number), now.get(number)
        if before == after or _left.get(number) in (before or after, after or before):
            continue
        if before is not None and before[2] and after is None:
            continue  # libraries close connections of their pools when they have been idle
        is_file = before is not None and not before[2]  # a connection may have taken the number of another
        if not is_file and after is not None and after[2] and _is_pooled(number):
            continue
        changed[number] = "it is closed" if after is None else f"it is open: {_target(number)}"
        if before is not None and after is not None:
            changed[number] += ", and what was open before is closed"
    return changed


def _is_pooled(number: int) -> bool:
    """Whether this socket is connected to one of the ``POOLED_PORTS``."""
    try:
        with socket.socket(fileno=os.dup(number)) as connection:
            return connection.getpeername()[1] in POOLED_PORTS
    except (OSError, IndexError):  # no connection of TCP
        return False


def _target(number: int) -> str:
    try:
        return os.readlink(f"{FOLDER}/{number}")
    except OSError:  # no link on this system, or closed in the meantime
        return "a file"
