"""A stdio server as a child process: its start, its streams and its end."""

import asyncio
import os
import signal
import sys

import pytest

from mcpproxy.errors import McpProxyError
from mcpproxy.peers.client.child_process import ChildProcess

DEADLINE_S = 60

PARENT = """
import subprocess, sys
waits = "import signal; import os; print('up', os.getpid(), sep=os.linesep, flush=True); signal.pause()"
child = subprocess.Popen([sys.executable, "-S", "-c", waits])
sys.stdin.read()
"""
"""It waits for the end of its stdin; its child holds stdout, and runs on."""


def python(source: str) -> list[str]:
    return [sys.executable, "-S", "-c", source]


def test_a_command_that_cannot_be_started_is_said() -> None:
    with pytest.raises(McpProxyError, match="no-such-command"):
        asyncio.run(ChildProcess.start(["no-such-command"]))


def test_what_the_server_has_started_ends_with_it() -> None:
    async def story() -> None:
        process = await ChildProcess.start(python(PARENT))
        assert await process.stdout.readline() == b"up\n"
        await process.stdout.readline()
        process.stdin.close()
        assert await process.wait_for_exit(DEADLINE_S)
        assert process.exit_code == 0
        reading = asyncio.create_task(read_to_the_end(process))
        assert await process.end([reading]) == 0
        assert reading.done()
        assert not reading.cancelled()

    asyncio.run(story())


def test_what_has_left_the_group_and_holds_stdout_is_not_waited_for() -> None:
    async def story() -> None:
        process = await ChildProcess.start(
            python(PARENT.replace("waits])", "waits], start_new_session=True)"))
        )
        assert await process.stdout.readline() == b"up\n"
        left = int(await process.stdout.readline())
        try:
            process.stdin.close()
            reading = asyncio.create_task(read_to_the_end(process))
            assert await process.end([reading]) in (0, -signal.SIGKILL)
        finally:
            os.kill(left, signal.SIGKILL)

    asyncio.run(asyncio.wait_for(story(), DEADLINE_S))


def test_what_has_left_the_group_and_holds_stdin_leaves_nothing_waiting() -> None:
    async def story() -> None:
        source = PARENT.replace("waits])", "waits], start_new_session=True)")
        process = await ChildProcess.start(python(source.replace("sys.stdin.read()", "child.wait()")))
        assert await process.stdout.readline() == b"up\n"
        left = int(await process.stdout.readline())
        try:
            before = asyncio.all_tasks()
            process.stdin.write(b"x" * (1 << 20))
            assert await process.end([]) == -signal.SIGKILL
            assert asyncio.all_tasks() == before
        finally:
            os.kill(left, signal.SIGKILL)

    asyncio.run(asyncio.wait_for(story(), DEADLINE_S))


async def read_to_the_end(process: ChildProcess) -> None:
    assert await process.stdout.read() == b""


def test_a_server_that_runs_on_is_killed() -> None:
    async def story() -> None:
        process = await ChildProcess.start(python("import signal; signal.pause()"), has_stderr=True)
        assert not await process.wait_for_exit(0)
        assert process.exit_code is None
        assert await process.end([]) == -signal.SIGKILL
        assert process.stderr is not None
        assert await process.stderr.read() == b""

    asyncio.run(story())


def test_variables_are_added_and_the_folder_is_the_given_one() -> None:
    async def story() -> None:
        source = "import os; print(os.environ['ADDED'], 'PATH' in os.environ, os.getcwd())"
        process = await ChildProcess.start(python(source), env={"ADDED": "yes"}, cwd="/")
        assert await process.stdout.read() == b"yes True /\n"
        await process.end([])

    asyncio.run(story())
