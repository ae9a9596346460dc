"""Messages that peers may read differently, or that nobody can hold; and a server that sends and takes them.

``python -m tests.intercept.odd_messages FILE`` is that server on stdio. It takes every line, executes what it
can find in it (a line in FILE), and answers ``{"method": "say", "params": NUMBER}`` with that odd answer.
"""

import json
import re
import sys
from typing import Final, NamedTuple

SECRET: Final = b"SECRET"
"""Stands in everything that must not pass."""


class Odd(NamedTuple):
    """An odd message; ``ID`` in it is an id. ``told``: the id of the error that its sender or receiver gets:
    ``ID``, ``null``, or none for what needs no answer."""

    name: str
    raw: bytes
    told: str = "ID"


def _request(params: bytes = b'{"name":"SECRET"}', id: bytes = b"ID") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":%b}' % (id, params)


def _response(result: bytes = b'{"text":"SECRET"}') -> bytes:
    return b'{"jsonrpc":"2.0","id":ID,"result":%b}' % result


_DEEP: Final = b"[" * 100_000 + b"]" * 100_000
_LONG: Final = b'"%b"' % (b"SECRET" * (3 << 20))
"""18 MiB."""

COMMON: Final = (
    Odd("UTF-16", '{"a":"SECRET"}'.encode("utf-16-le").replace(b"S\0E\0C\0", b"SECRET"), "null"),
    Odd("garbage", b"SECRET: started", "null"),
    Odd("a number", b'5, "SECRET"', "null"),
    Odd("a string", b'"SECRET"', "null"),
    Odd("an object", b'{"SECRET":1}', "null"),
    Odd("a batch of no messages", b'["SECRET"]', "null"),
    Odd("zero bytes", b"\0\0" + b'{"SECRET":1}', "null"),
)
"""These have no id."""

REQUESTS: Final = (
    Odd("NaN", _request(b'{"name":"SECRET","x":NaN}')),
    Odd("Infinity", _request(b'{"x":[-Infinity],"name":"SECRET"}')),
    Odd("not UTF-8", _request(b'{"name":"SECRET","x":"caf\xe9"}')),
    Odd("too deep", _request(b'{"name":"SECRET","x":%b}' % _DEEP)),
    Odd("a batch", b"[%b]" % _request()),
    Odd("a batch with NaN", b'[%b,{"x":NaN}]' % _request()),
    Odd("two methods", b'{"jsonrpc":"2.0","id":ID,"method":"ping","x":"SECRET","method":"tools/call"}'),
    Odd("two names", _request(b'{"name":"SECRET", "name":"b"}')),
    Odd("a method that is a number", b'{"jsonrpc":"2.0","id":ID,"method":5,"params":"SECRET"}'),
    Odd("a method and a result", b'{"jsonrpc":"2.0","id":ID,"method":"SECRET","result":{}}'),
    Odd("a byte order mark", b"\xef\xbb\xbf" + _request()),
    Odd("cut off", b'{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"SECRET'),
    Odd("two on a line", _request() + _request()),
    Odd("a comma too many", _request(b'{"name":"SECRET",}')),
    Odd("a comment", b"/* SECRET */" + _request(), "null"),
    Odd("long", _request(b'{"name":%b}' % _LONG)),
    Odd("long, the id at the end", b'{"method":"a","params":{"b":%b},"jsonrpc":"2.0","id":ID}' % _LONG),
    Odd("NaN in a notification", b'{"jsonrpc":"2.0","method":"a","params":{"b":"SECRET","c":NaN}}', "null"),
    Odd(
        "two names in a notification", b'{"jsonrpc":"2.0","method":"a","params":{"SECRET":1,"SECRET":1}}', ""
    ),
    *COMMON,
)
RESPONSES: Final = (
    Odd("NaN", _response(b'{"text":"SECRET","x":NaN}')),
    Odd("not UTF-8", _response(b'"SECRET \xe9"')),
    Odd("too deep", _response(b'{"text":"SECRET","x":%b}' % _DEEP)),
    Odd("a batch", b"[%b]" % _response()),
    Odd("two results", b'{"jsonrpc":"2.0","id":ID,"result":{}, "result":{"text":"SECRET"}}'),
    Odd("a method and a result", b'{"jsonrpc":"2.0","id":ID,"method":"SECRET","result":{}}'),
    Odd("cut off", b'{"jsonrpc":"2.0","id":ID,"result":{"text":"SECRET'),
    Odd("long", _response(b'{"text":%b}' % _LONG)),
    Odd("long, the id at the end", b'{"result":{"text":%b},"jsonrpc":"2.0","id":ID}' % _LONG),
    *COMMON,
)
"""What a server answers to request ``ID``."""

ADDON: Final = """
from mcpproxy.addons import Addon
class Guard(Addon):
    fail_open = False
    def request(self, session, message):
        return None
    notification = request
    def response(self, session, request, message):
        return None
"""


def main(path: str) -> None:
    """Be a server that is lenient."""
    for line in sys.stdin.buffer:
        with open(path, "ab") as file:
            file.write((b"SECRET" if SECRET in line else line.strip()) + b"\n")
        found = re.search(rb'"id": ?(\d+)', line)
        if b'"initialize"' in line:
            _say({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}}, found)
        elif asked := re.search(rb'"say", ?"params": ?(\d+)', line):
            assert found is not None
            raw = RESPONSES[int(asked[1])].raw
            sys.stdout.buffer.write(raw.replace(b"ID", found[1]) + b"\n")
            sys.stdout.buffer.flush()
        else:
            _say({}, found)


def _say(result: object, id: "re.Match[bytes] | None") -> None:
    if id is not None:
        text = json.dumps(result).encode()
        sys.stdout.buffer.write(b'{"jsonrpc": "2.0", "id": %b, "result": %b}\n' % (id[1], text))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
