"""``mcpproxy ship``: copy the closed recordings of a folder to an object store, each exactly once.

A file of a recording is closed when nobody will write it any more.
"""

import os
import signal
from collections.abc import Callable
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Final

from mcpproxy.base.style import count
from mcpproxy.base.system_words import os_reason
from mcpproxy.base.visible import visible
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import SPAN_FORMS, Parser, UsageError, age, seconds
from mcpproxy.cli.terminal import tell
from mcpproxy.send.fleet import urls

if TYPE_CHECKING:
    from mcpproxy.send.fleet.ship import Shipper

EPILOG: Final = """\
URL is a folder of a store: s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, file:///folder.
Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL and so on), or from the
identity that a cloud gives to the machine.

  mcpproxy ship recordings/ s3://bucket/mcp            once: what is closed now
  mcpproxy ship recordings/ s3://bucket/mcp --watch    until SIGTERM: a sidecar
  mcpproxy verify s3://bucket/mcp                      whether everything is there, unchanged

exit codes: 0 everything that is closed was shipped, 2 something was not"""

_PAUSE_S: Final = 10.0
"""The time between two searches for closed recordings."""
_GRACE_S: Final = 20.0
"""How long running recordings may take to end after the signal."""


def run(argv: list[str]) -> int:
    """Ship a folder, once or until a signal. Return 2 if something was not shipped, or not deleted.

    Raises:
        McpProxyError: the arguments are not valid, or the store cannot be used.
    """
    parser = Parser("ship", "Ship the closed recordings of a folder to an object store.", EPILOG)
    add = parser.add_argument
    add("folder", metavar="DIR", help="the folder of recordings; those in folders below it are not shipped")
    add("url", metavar="URL", help="where they go")
    add("--watch", action="store_true", help="go on until SIGTERM or SIGINT")
    add(
        "--every",
        type=seconds,
        default=_PAUSE_S,
        metavar="SECONDS",
        help="with --watch: seconds in between (default: 10)",
    )
    add(
        "--grace",
        type=seconds,
        default=_GRACE_S,
        metavar="TIME",
        help=f"with --watch: for the last recordings to end after the signal: {SPAN_FORMS} (default: 20s)",
    )
    add(
        "--delete-after",
        type=age,
        metavar="AGE",
        help="delete files that nobody changed for so long (0s, 12h, 7d), after their objects were read back",
    )
    add("--redact", action="store_true", help="mask what looks like a secret, as redact --preset secrets")
    add("--chain", default="", metavar="NAME", help="the chain of manifests (default: machine and folder)")
    options = parser.parse_args(argv)
    urls.check("ship", options.url)
    if not os.path.isdir(options.folder):
        raise UsageError(options.folder, "no such folder", "name a folder of recordings")
    if options.chain and not urls.is_plain(options.chain):
        raise UsageError("--chain", "takes letters, digits, ., - and _", "choose another")

    def make_shipper() -> "Shipper":
        from mcpproxy.send.fleet.ship import Shipper

        return Shipper(
            options.folder,
            options.url,
            masks=options.redact,
            delete_after_s=options.delete_after,
            chain=options.chain,
        )

    find_traces.tell_of_folders_below(options.folder, lambda path: ["mcpproxy", "ship", path, options.url])
    if options.watch:
        return _watch_folder(
            make_shipper, f"{options.folder} to {options.url}", pause_s=options.every, grace_s=options.grace
        )
    return _ship_once(make_shipper())


def _ship_once(shipper: "Shipper") -> int:
    """Ship the files that are closed, and return the exit code.

    Raises:
        StoreError: the store cannot be used.
        UsageError: the folder cannot be read.
    """
    from mcpproxy.send.fleet.watch import NOT_OURS, summary

    try:
        shipped = shipper.ship()
    except OSError as fault:
        raise UsageError(shipper.folder, os_reason(fault), "check the folder") from None
    for name, fault in shipped.faults.items():
        tell(visible(f"{name}: {fault}"))
    tell(summary(shipped, shipper))
    for name in shipped.strangers:
        tell(visible(f"{name}: {NOT_OURS}"))
    if shipped.running:
        tell(f"{count(shipped.running, 'recording')} still being made; ship again when they have ended")
    return 2 if shipped.faults else 0


def _watch_folder(make_shipper: Callable[[], "Shipper"], what: str, *, pause_s: float, grace_s: float) -> int:
    """Ship files as they are closed, until SIGTERM or SIGINT. Return the exit code.

    ``what`` names the folder and the URL in the line that says what is shipped.
    """
    from mcpproxy.send.fleet.watch import watch

    stop = Event()

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    tell(visible(f"shipping {what}"))
    return watch(make_shipper, stop, tell, pause_s=pause_s, grace_s=grace_s)
