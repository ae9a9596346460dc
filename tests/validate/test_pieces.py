"""The pieces in which ``split-writes`` sends a message."""

import pytest

from mcpproxy.peers.validate.connection import dumps
from mcpproxy.peers.validate.probes.stdio import ends_of_pieces
from mcpproxy.protocol.jsonrpc import JSONObject


@pytest.mark.parametrize("method", ["ping", "tools/list", "server/discover", "resources/templates/list"])
@pytest.mark.parametrize("id", [1, 12, 1234567])
def test_pieces_end_inside_a_name_an_escape_and_a_character(method: str, id: int) -> None:
    params: JSONObject = {"_meta": {"mcpproxy.dev/pieces": 'one "two" \u2603 three'}}
    raw = dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + b"\n"
    ends = ends_of_pieces(raw)
    assert raw.index(b'\\"') + 1 in ends
    assert raw.index(b"method") + 1 in ends
    assert raw.index("\u2603".encode()) + 1 in ends
    assert ends == sorted(set(ends))
    assert ends[-1] == len(raw)
    assert ends[-2] < len(raw) - 2
    assert ends[0] > 0
