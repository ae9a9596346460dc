"""The corpus: configuration files in the shapes that hosts write, and in every shape that people do.

A folder of ``corpus/`` is named for a host; ``PLACES`` says where that host keeps such a file.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(__file__).parent / "corpus"
PROJECT: Final = "project"

PLACES: Final = {
    "amazon-q": ".aws/amazonq/mcp.json",
    "amazon-q-agent": ".aws/amazonq/cli-agents/default.json",
    "amp": ".config/amp/settings.json",
    "antigravity": ".gemini/config/mcp_config.json",
    "antigravity-project": "project/.agents/mcp_config.json",
    "claude-code": ".claude.json",
    "claude-code-project": "project/.mcp.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cline": ".cline/data/settings/cline_mcp_settings.json",
    "cline-old": ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    "codex": ".codex/config.toml",
    "codex-project": "project/.codex/config.toml",
    "continue": ".continue/config.yaml",
    "continue-project": "project/.continue/mcpServers/x",
    "copilot-cli": ".copilot/mcp-config.json",
    "crush": ".config/crush/crush.json",
    "cursor": ".cursor/mcp.json",
    "droid": ".factory/mcp.json",
    "gemini-cli": ".gemini/settings.json",
    "gemini-cli-project": "project/.gemini/settings.json",
    "goose": ".config/goose/config.yaml",
    "grok-cli": ".grok/config.toml",
    "jetbrains": ".jetbrains/acp.json",
    "junie": ".junie/mcp/mcp.json",
    "kilo-code": ".config/kilo/kilo.jsonc",
    "kimi": ".kimi/mcp.json",
    "kiro": ".kiro/settings/mcp.json",
    "kiro-agent": ".kiro/agents/rust.json",
    "librechat": "project/librechat.yaml",
    "lm-studio": ".lmstudio/mcp.json",
    "mcphub": ".config/mcphub/servers.json",
    "mistral-vibe": ".vibe/config.toml",
    "opencode": ".config/opencode/opencode.jsonc",
    "opencode-json": ".config/opencode/opencode.json",
    "openhands": ".openhands/mcp.json",
    "qoder": ".qoder/mcp.json",
    "qwen-code": ".qwen/settings.json",
    "roo-code": ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
    "trae": ".config/Trae/User/mcp.json",
    "visual-studio": ".mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "vscode-insiders": ".config/Code - Insiders/User/mcp.json",
    "vscode-workspace": "project/shop.code-workspace",
    "warp": ".warp/.mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "windsurf-jetbrains": ".codeium/mcp_config.json",
    "zed": ".config/zed/settings.json",
    "zed-project": "project/.zed/settings.json",
}
"""Folder of the corpus -> the path of the file in the home folder, on Linux."""


@dataclass(frozen=True)
class Case:
    """A file of the corpus."""

    name: str
    data: bytes

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    def place(self, home: Path) -> Path:
        """Write the file where its host keeps it; return the path."""
        path = home / PLACES[self.name.partition("/")[0]]
        if path.name == "x":
            path = path.with_name(Path(self.name).name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data)
        return path


@cache
def cases() -> tuple[Case, ...]:
    """Return every file of the corpus, and those that are too large to keep."""
    kept = (path for path in sorted(FOLDER.glob("*/*")) if path.is_file())
    return *(Case(path.relative_to(FOLDER).as_posix(), path.read_bytes()) for path in kept), *_large()


def _large() -> Iterator[Case]:
    """Files of a megabyte: a history of prompts, as Claude Code keeps it, and as many in TOML and YAML."""
    history: list[object] = [
        {"display": f"prompt {number}: {'x' * 80}", "pastedContents": {}} for number in range(9_000)
    ]
    servers = {"memory": {"type": "stdio", "command": "npx", "args": ["-y", "memory"]}}
    state: dict[str, object] = {
        "projects": {"/srv": {"history": history, "mcpServers": servers}},
        "mcpServers": servers,
    }
    yield Case("claude-code/large.json", json.dumps(state, indent=2).encode())
    rows = "".join(f"row_{number} = '{'x' * 500}'\n" for number in range(2_000))
    table = '[mcp_servers.a]\ncommand = "x"\nargs = ["1"]\n'
    yield Case("codex/large.toml", f"[notes]\n{rows}\n{table}".encode())
    rows = "".join(f"  row_{number}: '{'x' * 2_000}'\n" for number in range(500))
    table = "extensions:\n  a:\n    cmd: x\n    args: [b]\n"
    yield Case("goose/large.yaml", f"notes:\n{rows}{table}".encode())


_PARAMS: Final = [pytest.param(case, id=case.name) for case in cases()]
LARGE: Final = [param for param in _PARAMS if "/large." in str(param.id)]
"""The files of a megabyte, which take as long as all others together."""
SMALL: Final = [param for param in _PARAMS if "/large." not in str(param.id)]
