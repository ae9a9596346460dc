"""The script and the test in the README, with a host of a few lines in the place of Claude Code."""

import sys
from pathlib import Path
from typing import Final

import pytest

from tests import documents
from tests.plugin_project import Project, load_mcpproxy
from tests.scripted_model.test_mcp_model import HOST

__all__ = ["load_mcpproxy"]

pytest_plugins = ("pytester",)

STAND_IN: Final = f"""#!{sys.executable}
import json, os, sys
sys.path.insert(0, {{folder!r}})
from host import host

(server,) = json.load(open(sys.argv[sys.argv.index("--mcp-config") + 1]))["mcpServers"].values()
print(host(os.environ, [server["command"], *server["args"]]))
"""


def test_the_test_in_the_readme(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(pytester, monkeypatch)
    pytester.makepyfile(host=HOST)
    script = documents.named("script of a model").text
    (pytester.path / "oslo.jsonl").write_text(script, encoding="utf-8")
    claude = pytester.path / "bin" / "claude"
    claude.parent.mkdir()
    claude.write_text(STAND_IN.format(folder=str(pytester.path)), encoding="utf-8")
    claude.chmod(0o755)
    monkeypatch.setenv("PATH", str(claude.parent), prepend=":")
    monkeypatch.chdir(Path(pytester.path))
    project.run(documents.named("scripted model in pytest").text).assert_outcomes(passed=1)
    assert project.asked == ["tools/call"]
