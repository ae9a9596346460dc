"""``mcpproxy export pcapng``: a recording as packets, for Wireshark."""

import os
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.output import write_new
from mcpproxy.cli.terminal import tell
from mcpproxy.opening import open_trace

EPILOG: Final = """\
Wireshark opens the file: HTTP as TCP connections, messages on stdio as JSON, findings as comments on packets
(filter: frame.comment). Addresses, ports and TCP headers are made up, because a recording has none. What
looks like a secret is masked, as by mcpproxy redact --preset secrets.

  mcpproxy export pcapng session.jsonl            writes session.pcapng
  tshark -r session.pcapng -Y frame.comment -T fields -e frame.comment"""


def run(argv: list[str]) -> int:
    """Write one recording as a pcapng file.

    Raises:
        McpProxyError: the arguments are not valid, or the recording cannot be read.
    """
    parser = Parser("export pcapng", "Write a recording as packets, for Wireshark.", EPILOG)
    parser.add_argument(
        "trace", nargs="?", metavar="TRACE", help="the recording, which stays as it is; without it the latest"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="the new file; without it beside the recording")
    parser.add_argument("--keep-secrets", action="store_true", help="mask nothing")
    options = parser.parse_args(argv)
    named = find_traces.one(options.trace)
    output: str = options.output or f"{find_traces.stem(options.trace, named)}.pcapng"

    from mcpproxy.export.exported_trace import open_exported
    from mcpproxy.export.packet_capture import PacketCapture

    with open_exported(open_trace(named), keep_secrets=options.keep_secrets) as exported:
        capture = PacketCapture(exported)
        write_new(output, capture.pieces())
    tell(f"{output}: {count(capture.packets, 'packet')}, {os.path.getsize(output) / 1e6:.1f} MB")
    for reason in exported.notes:
        tell(f"{named}: {reason}")
    return 0
