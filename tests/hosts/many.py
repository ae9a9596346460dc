"""A home folder with 20 hosts and 60 servers, for kills and for the benchmark."""

from pathlib import Path
from typing import Final

from tests.hosts.corpus import PLACES

HOSTS: Final = 20

_JSON: Final = '{\n  "mcpServers": {%s\n  }\n}\n'
_JSON_ENTRY: Final = '\n    "server-%d": {\n      "command": "npx",\n      "args": ["-y", "server-%d"]\n    }'
_TOML_ENTRY: Final = '[mcp_servers.server-%d]\ncommand = "npx" # here\nargs = ["-y", "server-%d"]\n\n'
_YAML_ENTRY: Final = "  server-%d:\n    type: stdio\n    cmd: npx\n    args:\n    - -y\n    - server-%d\n"
_JSON_HOSTS: Final = (
    *("amazon-q", "antigravity", "claude-code", "claude-desktop", "cline", "copilot-cli", "cursor", "droid"),
    *("gemini-cli", "junie", "kimi", "lm-studio", "mcphub", "qoder", "qwen-code", "trae", "windsurf"),
)


def make(home: Path, hosts: int = HOSTS) -> dict[Path, bytes]:
    """Write the files of so many hosts, with three servers each; return their contents."""
    texts = {"goose": "extensions:\n" + "".join(_YAML_ENTRY % (n, n) for n in range(3))}
    texts |= {name: "".join(_TOML_ENTRY % (n, n) for n in range(3)) for name in ("codex", "grok-cli")}
    texts |= {name: _JSON % ",".join(_JSON_ENTRY % (n, n) for n in range(3)) for name in _JSON_HOSTS}
    assert len(texts) == HOSTS
    made: dict[Path, bytes] = {}
    for name, text in list(texts.items())[:hosts]:
        path = home / PLACES[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        made[path] = text.encode()
    return made
