"""A peer that says what it heard: a server for sessions in which rules are enforced.

Each line that reaches it is repeated on stderr. It answers initialize with the result given as its first
argument, any other request with an empty result. ``_ask`` makes it send its client the request in ``params``.
"""

import json
import sys


def main() -> None:
    opening = json.loads(sys.argv[1])
    for line in sys.stdin:
        print(line, end="", file=sys.stderr, flush=True)
        message = json.loads(line)
        if isinstance(message, list) or "method" not in message:
            continue
        if message["method"] == "_ask":
            print(json.dumps(message["params"]), flush=True)
        elif "id" in message:
            result = opening if message["method"] == "initialize" else {}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


main()
