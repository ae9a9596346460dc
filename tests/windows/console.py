"""Run in a console of Windows, as a host: ``python console.py RESULT COMMAND...``.

It starts ``COMMAND`` with pipes in its own console, waits until that says ``ready`` or ``listening``, sends
Ctrl-C to every process of the console, then the line ``more``, and writes to the file ``RESULT`` how the
command ended and what it wrote. Each process gets Ctrl-C in its own time, so the stdin of a command with
``--trace`` stays open until its trace says that it got it.
"""

import ctypes
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

CTRL_C = 0
EVERY_PROCESS = 0

# A handler, because a process that ignores Ctrl-C would start others that ignore it.
signal.signal(signal.SIGINT, lambda number, frame: None)
pipe = subprocess.PIPE
result, *command = sys.argv[1:]
with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as started:
    assert started.stdin is not None
    assert started.stdout is not None
    lines: list[str] = []
    for line in started.stdout:
        lines.append(line)
        if "ready" in line or "listening" in line:
            vars(ctypes)["WinDLL"]("kernel32").GenerateConsoleCtrlEvent(CTRL_C, EVERY_PROCESS)
            break
    try:
        started.stdin.write("more\n")
        started.stdin.flush()
    except OSError:
        pass  # it has exited
    lines.append(started.stdout.readline())
    if "--trace" in command:
        trace = Path(command[command.index("--trace") + 1])
        while started.poll() is None and not (trace.exists() and b"SIGINT" in trace.read_bytes()):
            time.sleep(0.05)  # nothing tells when the record comes
    try:
        started.stdin.close()
    except OSError:
        pass
    lines += started.stdout
    code = started.wait()
with open(result, "w", encoding="utf-8") as file:
    json.dump({"code": code, "lines": [line.rstrip() for line in lines if line]}, file)
