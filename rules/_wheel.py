"""In a wheel the rule tables are modules: installers compile those, wherever the user may write later."""

import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RuleTables(BuildHookInterface[Any]):
    """Puts ``rules/proto.toml`` into the wheel as ``mcpproxy/_rules/proto.py``, which holds ``TABLES``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="mcpproxy-rules-")
        for table in sorted(Path(self.root, "rules").glob("*.toml")):
            module = Path(self._folder.name, f"{table.stem}.py")
            module.write_text(f"TABLES = {tomllib.loads(table.read_text('utf-8'))!r}\n", "utf-8")
            build_data["force_include"][str(module)] = f"mcpproxy/_rules/{module.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if version != "editable":
            self._folder.cleanup()
