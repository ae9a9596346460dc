"""What is wrong with a file of TOML is said with its place, and in words for whoever wrote it."""

import pytest

from mcpproxy.hosts.document import Document
from mcpproxy.hosts.errors import HostFileError

LONE_RETURN = "a carriage return without a line feed, which ends no line in TOML"
BACKSLASH = "a backslash, which begins an escape in \"...\"; write '...' or two of them"


@pytest.mark.parametrize(
    ("text", "place", "fact"),
    [
        ('model = "m"\r[mcp_servers.a]\ncommand = "x"\n', "1:12", LONE_RETURN),
        ("a = 1\n# here\rb = 2\n", "2:7", LONE_RETURN),
        ('[a]\r\nargs = ["-File", "F:\\project\\start.ps1"]\r\n', "2:21", BACKSLASH),
        ('a = "C:\\Users\\me"\n', "1:8", BACKSLASH),
        ("a = 'x\\'b\n", "1:9", "expected newline or end of document after a statement"),
        ('\ufeff[m.a]\nc = "x"\n[b]\n[m.a] # again\nc = "y"\n', "4:1", "a second table [m.a]"),
        ('[a]\n["x.y"]\nb = 1\nb = 2\n[c]\n', "4:1", "a second value for b"),
        ("[a\n", "1:3", "expected ']' at the end of a table declaration"),
    ],
)
def test_faults(text: str, place: str, fact: str) -> None:
    with pytest.raises(HostFileError) as refused:
        Document("config.toml", text.encode(), "toml")
    assert str(refused.value) == (
        f"config.toml:{place}: not readable as TOML ({fact}); correct or simplify it first"
    )
