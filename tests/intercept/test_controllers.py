"""Who answers held messages may be killed at any time: nothing hangs, and another one goes on."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from mcpproxy.api import check
from mcpproxy.gate.intercept.asking.control_client import NotHeldError, ask
from mcpproxy.gate.intercept.control import control_path
from mcpproxy.judge.session.frame import Frame
from mcpproxy.record.trace.reader import read_trace
from tests.cli.conftest import Mcpproxy, mcpproxy, state_dir
from tests.intercept.test_breakpoints import Held, search
from tests.intercept.test_fault_relay import THE_PEER_S, call
from tests.relay.hosts import DEADLINE_S, HOME
from tests.ui.browser import ui_command

__all__ = ["mcpproxy", "state_dir"]

NOT_ACCEPTED = "02"
"""The state of a connection that its listener has not accepted, in ``/proc/net/unix``."""

PATIENT = ("--break", "from:client tool:search", "--break-timeout", "1h")


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    # The name of its own is looked for among the sockets of the whole machine.
    session = Held(tmp_path, *PATIENT, name=f"watched-{os.getpid()}")
    yield session
    session.close()


def given(held: Held) -> dict[int, list[int]]:
    """End the session, and return for the id of each held call what the server was given for it."""
    held.end()
    assert not os.path.exists(control_path(held.trace))
    report = check(held.trace)
    assert (report.complete, held.findings()) == (True, THE_PEER_S)
    frames = [event for event in read_trace(held.trace).events() if isinstance(event, Frame) and event.fault]
    ids = [
        (json.loads(frame.raw)["id"], frame.fault.number, frame.by_proxy) for frame in frames if frame.fault
    ]
    return {
        sent: [id for id, of, by_proxy in ids if by_proxy and of == number]
        for sent, number, by_proxy in ids
        if not by_proxy
    }


@contextmanager
def controller(held: Held, *arguments: str, editor: str = "") -> Generator[subprocess.Popen[bytes]]:
    """Run ``mcpproxy breakpoints``, and kill what is left of it."""
    command = [sys.executable, "-m", "mcpproxy", "breakpoints", *arguments, "--trace", held.trace]
    env = {**HOME, "EDITOR": editor, "VISUAL": ""}
    with subprocess.Popen(command, env=env, start_new_session=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def stopped(held: Held) -> Generator[None]:
    """Stop the relay, so that it does not answer."""
    held.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        held.process.send_signal(signal.SIGCONT)


def wait_until_it_asks(held: Held, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a process waits for the relay, which is stopped and accepts no connection, and sleeps."""
    deadline = time.monotonic() + DEADLINE_S
    name = f"{Path(held.trace).name}.control"
    while True:
        assert time.monotonic() < deadline
        sockets = map(str.split, Path("/proc/net/unix").read_text().splitlines())
        is_asking = any(words[5] == NOT_ACCEPTED and name in words[-1] for words in sockets)
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0]
        if is_asking and state == "S":
            return
        time.sleep(0.01)  # a process that waits for an answer says nothing


def test_a_hundred_held_calls_are_answered_by_the_command_in_any_order(
    held: Held, mcpproxy: Mcpproxy
) -> None:
    for id in range(1, 101):
        held.call(id)
    numbers = held.held(100)
    where = ("--trace", held.trace)
    listed = mcpproxy("breakpoints", *where).out.splitlines()[1:]
    assert [int(line.split()[0]) for line in listed] == sorted(numbers.values())
    draw = random.Random(11)
    expected: dict[int, list[int]] = {}
    for id in draw.sample(range(1, 101), 100):
        how = draw.choice(["resume", "drop", "edit"])
        text = ("--text", json.dumps(search(id + 1000))) if how == "edit" else ()
        assert mcpproxy("breakpoints", how, str(numbers[id]), *text, *where).code == 0
        expected[id] = {"resume": [id], "drop": [], "edit": [id + 1000]}[how]
    answers = [id for ids in expected.values() for id in ids]
    assert sorted(held.hear()["id"] for _ in answers) == sorted(answers)
    assert mcpproxy("breakpoints", *where).out == "nothing is held\n"
    assert given(held) == expected


def test_a_command_that_is_killed_with_its_editor_open_changes_nothing(
    held: Held, mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    for id in (1, 2, 3):
        held.call(id)
    numbers = held.held(3)
    where = ("--trace", held.trace)
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    script = tmp_path / "editor.py"
    script.write_text(
        "import sys, time\n"
        "open(sys.argv[2], 'w').write('{}')\n"
        "open(sys.argv[1], 'w').write('opened')\n"
        "time.sleep(600)\n"
    )
    editor = f"{sys.executable} {script} {opened}"
    with controller(held, "edit", str(numbers[2]), editor=editor) as process:
        assert opened.read_text() == "opened"
        process.kill()
        assert process.wait(DEADLINE_S) == -signal.SIGKILL
        held.say(call(9, "ping"))
        assert held.hear()["id"] == 9
        assert held.held(3) == numbers
    assert mcpproxy("breakpoints", "drop", str(numbers[1]), *where).code == 0
    assert mcpproxy("breakpoints", "resume", str(numbers[2]), *where).code == 0
    assert held.hear() == {"jsonrpc": "2.0", "id": 2, "result": {}}
    text = json.dumps(search(30))
    assert mcpproxy("breakpoints", "edit", str(numbers[3]), "--text", text, *where).code == 0
    assert held.hear()["id"] == 30
    assert given(held) == {1: [], 2: [2], 3: [30]}


def test_a_command_that_is_killed_before_it_has_its_answer(held: Held, mcpproxy: Mcpproxy) -> None:
    held.call(1)
    held.call(2)
    numbers = held.held(2)
    with stopped(held), controller(held, "drop", str(numbers[1])) as process:
        wait_until_it_asks(held, process)
        process.kill()
        assert process.wait(DEADLINE_S) == -signal.SIGKILL
    # It was asked for and is done, although nobody is there to be told.
    assert held.held() == {2: numbers[2]}
    with pytest.raises(NotHeldError, match="was dropped already"):
        ask(held.trace, {"do": "resume", "number": numbers[1]})
    assert mcpproxy("breakpoints", "resume", str(numbers[2]), "--trace", held.trace).code == 0
    assert held.hear()["id"] == 2
    assert given(held) == {1: [], 2: [2]}


def test_a_command_that_is_killed_in_the_middle_of_what_it_says(
    held: Held, mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    held.call(1)
    number = held.held()[1]
    script = tmp_path / "editor.py"
    opened, closes = tmp_path / "opened", tmp_path / "closes"
    os.mkfifo(opened)
    os.mkfifo(closes)
    script.write_text(
        "import sys\n"
        "open(sys.argv[1], 'w').write('opened')\n"
        "open(sys.argv[3], 'w').write('x' * int(open(sys.argv[2]).read()))\n"
    )
    editor = f"{sys.executable} {script} {opened} {closes}"
    with controller(held, "edit", str(number), editor=editor) as process:
        assert opened.read_text() == "opened"
        with stopped(held):
            closes.write_text(str(8 << 20))  # more than a socket takes: it cannot say all
            wait_until_it_asks(held, process)
            process.kill()
            assert process.wait(DEADLINE_S) == -signal.SIGKILL
    assert held.held() == {1: number}
    assert mcpproxy("breakpoints", "resume", str(number), "--trace", held.trace).code == 0
    assert held.hear()["id"] == 1
    assert given(held) == {1: [1]}


def test_a_page_whose_process_is_killed_with_what_it_watches(held: Held, mcpproxy: Mcpproxy) -> None:
    for id in (1, 2, 3):
        held.call(id)
    numbers = held.held(3)
    with ui_command(Path(held.trace).parent, "--allow-send") as page:
        token = parse_qs(urlsplit(page.url).query)["token"][0]
        with (
            httpx.Client(
                base_url=page.home, headers={"Authorization": f"Bearer {token}"}, timeout=DEADLINE_S
            ) as client,
            client.stream("GET", "/api/live") as live,
        ):
            assert next(line for line in live.iter_lines() if re.match(r'data: .*"held"', line))
            (recording,) = client.get("/api/recordings").json()["recordings"]
            address = f"/api/recordings/{recording['id']}/held"
            assert client.post(address, json={"do": "drop", "numbers": [numbers[1]]}).is_success
            with stopped(held):

                def resume() -> None:
                    with suppress(httpx.HTTPError):
                        client.post(address, json={"do": "resume", "numbers": [numbers[2]]})

                asking = threading.Thread(target=resume)
                asking.start()
                page.process.kill()
                page.process.wait(DEADLINE_S)
                asking.join(DEADLINE_S)
                assert not asking.is_alive()
    # Whether the page had asked before it was killed is not known; the list says it.
    for number in held.held().values():
        assert mcpproxy("breakpoints", "resume", str(number), "--trace", held.trace).code == 0
    assert {held.hear()["id"], held.hear()["id"]} == {2, 3}
    assert given(held) == {1: [], 2: [2], 3: [3]}
