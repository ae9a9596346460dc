"""``mcpproxy export pcapng``: a recording as packets, for Wireshark."""

from typing import Final

from mcpproxy.base.style import count
from mcpproxy.cli.commands.export.one_file import read_arguments
from mcpproxy.cli.output import write_new
from mcpproxy.read.export.exported_trace import open_exported
from mcpproxy.read.export.packet_capture import PacketCapture
from mcpproxy.read.opening import open_trace

EPILOG: Final = """\
Wireshark opens the file: HTTP as TCP connections, messages on stdio as JSON, findings as comments on packets
(filter: frame.comment). Addresses, ports and TCP headers are made up, because a recording has none. What
looks like a secret is masked, as by mcpproxy redact --preset secrets.

  mcpproxy export pcapng session.jsonl            writes session.pcapng
  tshark -r session.pcapng -Y frame.comment -T fields -e frame.comment"""


def run(argv: list[str]) -> int:
    """Write one recording as a pcapng file.

    Raises:
        McpProxyError: the arguments are not valid, the recording cannot be read, or the file cannot be
            written.
    """
    file = read_arguments("pcapng", "Write a recording as packets, for Wireshark.", EPILOG, argv)

    with open_exported(open_trace(file.recording), keep_secrets=file.keep_secrets) as exported:
        capture = PacketCapture(exported)
        write_new(file.output, capture.pieces())
    file.tell_written(count(capture.packets, "packet"), exported.notes)
    return 0
