"""A server for sessions with enforced rules, which repeats what it receives.

Each line that reaches it is repeated on stderr. It answers initialize with the result given as its first
argument, any other request with an empty result. ``_ask`` makes it send its client the request in ``params``.
"""

import json
import sys
from typing import Any


def say(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    opening: Any = json.loads(sys.argv[1])
    for line in sys.stdin:
        sys.stderr.write(line)
        sys.stderr.flush()
        message: Any = json.loads(line)
        if isinstance(message, list) or "method" not in message:
            continue
        if message["method"] == "_ask":
            say(message["params"])
        elif "id" in message:
            result: object = opening if message["method"] == "initialize" else {}
            say({"jsonrpc": "2.0", "id": message["id"], "result": result})


main()
