"""A web server in a thread of the tests that says nothing about connections that its clients have reset."""

from http.server import ThreadingHTTPServer
from typing import Any


class WebServer(ThreadingHTTPServer):
    """A client that closes a connection before it has read everything resets it: no test is about that."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep the traceback from the stderr of the process, in which tests look for other lines."""
