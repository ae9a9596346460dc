"""Servers that nobody should have to do with."""

import os
import signal
import sys
import time
from typing import Any

from tests.validate.scripted import SILENT, Json, Server, flaw


@flaw
def hanging(server: Server) -> None:
    """It reads nothing and says nothing, and cannot be asked to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server.lines = lambda: time.sleep(600) or ()


@flaw
def flooding(server: Server) -> None:
    """It talks without end, and answers nothing."""
    said = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"la"}}\n'

    def lines() -> Any:
        while True:
            server.write(said * 500)

    server.lines = lines


@flaw
def flooding_later(server: Server) -> None:
    """It talks without end once it is called."""
    said = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"la"}}\n'

    def call(params: dict[str, Any]) -> Json:
        while True:
            server.write(said * 500)

    server.methods["tools/call"] = call


@flaw
def one_endless_line(server: Server) -> None:
    def initialize(params: dict[str, Any]) -> Json:
        while True:
            server.write(b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 50_000)

    server.methods["initialize"] = initialize


@flaw
def dying_in_mid_answer(server: Server) -> None:
    def initialize(params: dict[str, Any]) -> Json:
        server.write(b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-1')
        os._exit(7)

    server.methods["initialize"] = initialize


@flaw
def garbage(server: Server) -> None:
    """Lines of bytes that are no text, nor JSON, nor anything."""
    server.say = lambda message: server.write(bytes(range(128, 256)) + b"\x00\xff{]\n")


@flaw
def never_closing(server: Server) -> None:
    """It survives the end of its stdin and SIGTERM, and leaves a child behind that holds its stdout."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    good = server.begin

    def begin() -> None:
        good()
        if pid := os.fork():
            server.note_process(pid)  # by the parent: the child may be killed before it could
        else:
            time.sleep(600)

    def end() -> int:
        time.sleep(600)
        return 0

    server.begin = begin
    server.end = end


@flaw
def silent_once_open(server: Server) -> None:
    """It takes part in the handshake, and in nothing else."""
    good = server.request

    def request(message: dict[str, Any]) -> None:
        if message["method"] == "initialize":
            good(message)

    server.request = request


@flaw
def noisy_stderr(server: Server) -> None:
    """No flaw at all, but whoever does not read stderr blocks it."""
    good = server.request

    def request(message: dict[str, Any]) -> None:
        sys.stderr.write("x" * 300_000 + "\n")
        good(message)

    server.request = request


@flaw
def announced_hang(server: Server) -> None:
    """It says through a pipe beside the list of processes that it is there, and then nothing."""
    good = server.begin

    def begin() -> None:
        good()
        with open(os.environ["SCRIPTED_PIDS"] + ".ready", "w", encoding="ascii") as pipe:
            pipe.write("here\n")
        time.sleep(600)

    server.begin = begin


@flaw
def silent_tools(server: Server) -> None:
    """It never lists its tools."""
    server.methods["tools/list"] = lambda params: SILENT


@flaw
def announced_silence(server: Server) -> None:
    """As ``silent_tools``, and it says through a pipe that it was asked."""

    def tools(params: dict[str, Any]) -> Json:
        with open(os.environ["SCRIPTED_PIDS"] + ".ready", "w", encoding="ascii") as pipe:
            pipe.write("here\n")
        return SILENT

    server.methods["tools/list"] = tools
