"""A server of the tests, for any system. As many on Windows, it ends its lines with CR and LF."""

import json
import sys
from typing import Any, Final

RESULTS: Final[dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "C:\\crlf", "version": "1"},
    },
    "tools/call": {"content": [{"type": "text", "text": "C:\\Users\\Größe\\東京.txt\r\nread"}]},
}

for line in sys.stdin.buffer:
    request = json.loads(line)
    if "id" in request:
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": RESULTS[request["method"]]}
        sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode() + b"\r\n")
        sys.stdout.buffer.flush()
