"""``mcpproxy verify``: whether everything that was shipped to an object store is there, unchanged."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from mcpproxy.base.style import count, size
from mcpproxy.base.visible import visible
from mcpproxy.cli.arguments import SPAN_FORMS, Parser, time_span
from mcpproxy.cli.terminal import emit
from mcpproxy.send.fleet import urls

if TYPE_CHECKING:
    from mcpproxy.send.fleet.verify import Verified

EPILOG: Final = """\
Every file is read and compared with its manifest, and every chain of manifests is followed. The head of a
chain stands for all of it: keep it elsewhere, and name it the next time.

  mcpproxy verify s3://bucket/mcp
  mcpproxy verify s3://bucket/mcp --head 4f1e... --grace 10m

exit codes: 0 everything is as it was shipped, 1 something is not, 2 the store cannot be read"""


def run(argv: list[str]) -> int:
    """Verify one folder of a store. Return 1 if something is not as it was shipped.

    Raises:
        McpProxyError: the arguments are not valid, or the store cannot be read.
    """
    parser = Parser("verify", "Verify what mcpproxy ship has shipped.", EPILOG)
    add = parser.add_argument
    add("url", metavar="URL", help="the folder of a store, as it was named to ship")
    add("--head", action="append", default=[], metavar="SHA256", help="a head that was printed earlier")
    add(
        "--grace",
        type=time_span,
        default=0.0,
        metavar="TIME",
        help=f"how old a file may be and still wait for its manifest: {SPAN_FORMS} (default: 0s)",
    )
    add("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(argv)
    urls.check("verify", options.url)
    from mcpproxy.send.fleet.store import Store
    from mcpproxy.send.fleet.verify import verify

    store = Store(options.url)
    verified = verify(store, now_s=time.time(), grace_s=options.grace, expected=options.head)
    emit(_as_json(verified) if options.json else _as_text(verified, store.url))
    return 1 if verified.faults else 0


def _as_json(verified: "Verified") -> Iterator[str]:
    import json

    yield json.dumps(asdict(verified), indent=2)


def _as_text(verified: "Verified", url: str) -> Iterator[str]:
    """Yield a line for each fault, each file that awaits its manifest and each chain, then the totals."""
    for fault in verified.faults:
        yield visible(f"{fault.kind:<10}{fault.key}: {fault.text}")
    for key in verified.awaited:
        yield visible(f"new       {key}: its manifest is not there yet")
    for name, (length, head) in verified.heads.items():
        yield visible(f"chain {name}: {count(length, 'manifest')}, head {head}")
    files = f"{count(verified.files, 'file')} of {count(verified.recordings, 'recording')}"
    total = f"{files}, {size(verified.bytes)}"
    if not verified.heads and not verified.faults:
        yield f"{url}: nothing was shipped to here"
    elif verified.faults:
        yield f"{url}: {total}; {count(len(verified.faults), 'fault')}"
    else:
        yield f"{url}: {total}, all there and unchanged"
