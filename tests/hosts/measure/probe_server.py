"""A server over stdio that does what a file says: ``python probe_server.py FILE``.

The file is what ``probes.Probe.said`` writes. Each request is answered by a thread of its own, so that slow
answers hold nothing up, and the end of stdin ends the server at once.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
METHOD_NOT_FOUND: Final = -32601
_STEP_S: Final = 5
"""How often a slow call tells its progress."""


class Server:
    """Answers requests as ``said`` says; ``lists`` grows by ``grows`` when that tool is called."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self._said: Final = said
        self._lists: Final[dict[str, list[list[dict[str, Any]]]]] = said["lists"]
        self._writing: Final = threading.Lock()
        self._asked = 0

    def take(self, line: str) -> None:
        asked = json.loads(line)
        if "id" in asked and "method" in asked:
            threading.Thread(target=self._answer, args=(asked,), daemon=True).start()

    def _write(self, message: Mapping[str, Any]) -> None:
        with self._writing:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def _answer(self, asked: Mapping[str, Any]) -> None:
        method: str = asked["method"]
        params: dict[str, Any] = asked.get("params") or {}
        name: str | None = params.get("name") if method == "tools/call" else None
        self._wait(self._said["waits"].get(name or method, 0), params)
        if name and name == self._said["asker"]:
            for wanted in self._said["asks"]:
                self._asked += 1
                self._write({"id": f"own-{self._asked}", **wanted})
        self._write({"id": asked["id"], **self._answered(method, params, name)})
        if name and name in self._said["grows"]:
            self._lists["tools/list"][-1].append(self._said["grows"][name])
            self._write({"method": "notifications/tools/list_changed"})

    def _wait(self, seconds: float, params: Mapping[str, Any]) -> None:
        end, step = time.monotonic() + seconds, 0
        meta: dict[str, Any] = params.get("_meta") or {}
        token = meta.get("progressToken") if self._said["tells_progress"] else None
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _STEP_S))  # what is measured is time itself
            step += 1
            if token is not None:
                self._write(
                    {"method": "notifications/progress", "params": {"progressToken": token, "progress": step}}
                )

    def _answered(self, method: str, params: Mapping[str, Any], name: str | None) -> dict[str, Any]:
        if method == "initialize":
            revision = params["protocolVersion"]
            return {
                "result": {
                    "protocolVersion": revision if revision in REVISIONS else REVISIONS[-1],
                    "capabilities": self._said["capabilities"],
                    "serverInfo": {"name": "probe", "version": "1"},
                }
            }
        if method == "ping":
            return {"result": {}}
        if (pages := self._lists.get(method)) is not None:
            at = int(params.get("cursor") or 0)
            more = {"nextCursor": str(at + 1)} if at + 1 < len(pages) else {}
            member = {"resources/templates/list": "resourceTemplates"}.get(method, method.split("/")[0])
            return {"result": {member: pages[at], **more}}
        if name is not None:
            text = {"content": [{"type": "text", "text": f"{name} was called."}]}
            return {"result": self._said["results"].get(name, text)}
        return {"error": {"code": METHOD_NOT_FOUND, "message": f"There is no method {method}."}}


def main() -> None:
    server = Server(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    for line in sys.stdin:
        server.take(line)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
