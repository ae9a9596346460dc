"""Errors in reading and writing the configuration files of hosts."""

from mcpproxy.errors import McpProxyError


class UnreadableTextError(McpProxyError):
    """A text is not valid in the language of its file, or cannot be read into nodes.

    ``index`` is the position of the fault in characters; 0 if it is unknown, or is the start of the text.
    """

    def __init__(self, index: int, fact: str) -> None:
        super().__init__(index, fact)
        self.index = index
        self.fact = fact


class HostFileError(McpProxyError):
    """A configuration file cannot be read, or must not be written."""

    def __init__(self, path: str, fact: str, next_step: str) -> None:
        super().__init__(f"{path}: {fact}; {next_step}")
        self.path = path
        self.fact = fact
        self.next_step = next_step


def not_alone(path: str, places: str = "this place") -> HostFileError:
    """Return the error for a change of ``places`` in a file that would also change other values."""
    return HostFileError(path, f"its text cannot be changed in {places} alone", "edit it by hand")


class UnrecordedError(HostFileError):
    """A configuration file was written, but then the ledger (the records of all wraps) could not be written.

    The ledger still says that the change is in progress, so ``recover_records`` corrects it later.
    """
