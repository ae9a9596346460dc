"""The SDK's example server over Streamable HTTP: ``python sdk_http_server.py`` prints its port."""

# It runs with another version of the SDK than it is type-checked with.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportPrivateImportUsage=false

import asyncio
import socket
import sys
from pathlib import Path

import uvicorn

sys.path.insert(0, str(Path(__file__).parent.parent / "peers"))

from sdk_server import server

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)  # noqa: T201 # that is what it is for
app = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error"))
asyncio.run(app.serve([listener]))
