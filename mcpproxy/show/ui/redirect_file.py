"""A file that leads the browser to the page, so that the secret address is not an argument of a process.

Every user of a machine can read the arguments of all processes, but only the owner can read a file of mode
0600.

The file is in the home folder, with a name that no dot begins: browsers that are installed as snaps can read
neither hidden folders nor the folder of temporary files.
"""

import os
import secrets
import threading
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Final

LIFETIME_S: Final = 60.0
"""How long the browser may take to start; then the file is removed."""

_TEXT: Final = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>mcpproxy</title>
<p><a href="{url}">The recordings</a></p>
"""


class RedirectFile:
    """The file that leads to ``url``, from now on until ``remove`` is called, or for ``LIFETIME_S``.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, url: str) -> None:
        self._path: Final = os.path.join(os.path.expanduser("~"), f"mcpproxy-{secrets.token_hex(8)}.html")
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(_TEXT.format(url=escape(url)))
        self._timer: Final = threading.Timer(LIFETIME_S, self.remove)
        self._timer.daemon = True
        self._timer.start()

    @property
    def url(self) -> str:
        """The address of the file, for the browser."""
        return Path(self._path).as_uri()

    def remove(self) -> None:
        """Remove the file, if it is still there and can be removed."""
        self._timer.cancel()
        with suppress(OSError):
            os.unlink(self._path)
