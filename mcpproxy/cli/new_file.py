"""Write a new file: what ``export`` makes of a recording."""

import os
from collections.abc import Iterable

from mcpproxy.cli.arguments import UsageError


def write_new(path: str, pieces: Iterable[bytes]) -> None:
    """Write a new file that only its owner can read. If writing fails, remove the file.

    Raises:
        UsageError: there is a file at ``path``, or none can be written there.
    """
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            try:
                file.writelines(pieces)
            except BaseException:
                os.unlink(path)
                raise
    except FileExistsError:
        raise UsageError(path, "exists already", "name another file with -o") from None
    except OSError as fault:
        raise UsageError(path, (fault.strerror or str(fault)).lower(), "write to another place") from None
