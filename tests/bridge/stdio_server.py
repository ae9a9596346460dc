"""A stdio server that does what requests tell it to.

It answers ``initialize``. For every other request it does each of ``params.says`` in order: ``exit N``,
``pid`` (answers with its process id), ``log`` (answers with all lines that it has read), ``stay`` (ignores
the end of stdin), ``flood N`` (writes N log messages of 64 KiB, numbered from 0), or any other text, which it
writes as a line.
"""

import json
import os
import signal
import sys
from typing import Any, cast

WELCOME = (
    '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"%s","capabilities":{"tools":{}},'
    '"serverInfo":{"name":"test","version":"1"}}}'
)
FLOOD = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%d %s"}}'


def write(text: str) -> None:
    data = text.encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def main() -> None:
    lines: list[str] = []
    stays = False
    for raw in sys.stdin.buffer:
        line = raw.decode().removesuffix("\n")
        lines.append(line)
        value: Any = json.loads(line)
        message = cast("dict[str, Any]", value[0] if isinstance(value, list) else value)
        id = json.dumps(message.get("id"))
        if message.get("method") == "initialize":
            write(WELCOME % (id, message["params"]["protocolVersion"]))
            continue
        says: list[str] = message.get("params", {}).get("says", [])
        for say in says:
            if say.startswith("exit "):
                sys.stderr.write("as you wish\n")
                sys.exit(int(say.split()[1]))
            if say == "pid":
                write(f'{{"jsonrpc":"2.0","id":{id},"result":{{"pid":{os.getpid()}}}}}')
            elif say == "log":
                write(f'{{"jsonrpc":"2.0","id":{id},"result":{{"lines":{json.dumps(lines)}}}}}')
            elif say.startswith("flood "):
                for number in range(int(say.split()[1])):
                    write(FLOOD % (number, "x" * (64 << 10)))
            elif say == "stay":
                stays = True
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            else:
                write(say)
    while stays:
        signal.pause()


main()
