"""The table of hosts: its paths on each system, with that system pretended."""

import ntpath
import posixpath
import re
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Final

import pytest

from mcpproxy.hosts import host_table
from mcpproxy.hosts.host_table import Host, all_hosts, model_files, path_to_show

SYSTEMS: Final = ("linux", "mac", "windows")
HOMES: Final = {"linux": "/home/ada", "mac": "/Users/ada", "windows": r"C:\Users\ada"}
NOT_THERE: Final = {
    "linux": ("Library", "AppData", "C:", "\\"),
    "mac": ("AppData", "/etc/claude", "/etc/gemini", "C:", "\\"),
    "windows": ("Library", "/", "etc\\"),
}
"""What is in no path on this system."""

ROAMING: Final = r"C:\Users\ada\AppData\Roaming"
MAC_APPS: Final = "/Users/ada/Library/Application Support"
KNOWN: Final = {
    ("linux", "claude-desktop"): "/home/ada/.config/Claude/claude_desktop_config.json",
    ("mac", "claude-desktop"): f"{MAC_APPS}/Claude/claude_desktop_config.json",
    ("windows", "claude-desktop"): rf"{ROAMING}\Claude\claude_desktop_config.json",
    ("windows", "claude-code"): r"C:\Users\ada\.claude.json",
    ("linux", "vscode"): "/home/ada/.config/Code/User/mcp.json",
    ("mac", "vscode"): f"{MAC_APPS}/Code/User/mcp.json",
    ("windows", "vscode"): rf"{ROAMING}\Code\User\mcp.json",
    ("mac", "zed"): "/Users/ada/.config/zed/settings.json",
    ("windows", "zed"): rf"{ROAMING}\Zed\settings.json",
    ("mac", "goose"): "/Users/ada/.config/goose/config.yaml",
    ("windows", "goose"): rf"{ROAMING}\Block\goose\config\config.yaml",
    ("mac", "trae"): f"{MAC_APPS}/Trae/User/mcp.json",
    ("windows", "codex"): r"C:\Users\ada\.codex\config.toml",
    ("mac", "opencode"): "/Users/ada/.config/opencode/opencode.json",
    ("windows", "opencode"): r"C:\Users\ada\.config\opencode\opencode.json",
    ("windows", "crush"): r"C:\Users\ada\.config\crush\crush.json",
    ("windows", "amp"): r"C:\Users\ada\.config\amp\settings.json",
    ("windows", "qoder"): rf"{ROAMING}\Qoder\SharedClientCache\mcp.json",
}
"""The first file of a user, as the host itself or its documents name it."""


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Pretend a system: its name, the rules of its paths, its home folder and its environment."""
    name: str = request.param
    home = HOMES[name]
    rules: ModuleType = ntpath if name == "windows" else posixpath
    environ = {"HOME": home, "USERPROFILE": home}
    if name == "windows":
        environ |= {"APPDATA": ROAMING, "LOCALAPPDATA": rf"{home}\AppData\Local"}
        environ |= {"ProgramFiles": r"C:\Program Files", "ProgramData": r"C:\ProgramData"}
    monkeypatch.setattr(host_table, "_system", lambda: name)
    monkeypatch.setenv("USERPROFILE", home)
    monkeypatch.setenv("HOME", home)
    pretended = SimpleNamespace(path=rules, environ=environ)
    # The table of this system is read before its rules are pretended.
    all_hosts.cache_clear()
    all_hosts()
    monkeypatch.setattr(host_table, "os", pretended)
    yield name
    all_hosts.cache_clear()


def user_paths(host: Host) -> list[str]:
    return [path_to_show(row) for row in host.files if row.scope in ("user", "local")]


def test_every_path_is_plausible(system: str) -> None:
    rules = ntpath if system == "windows" else posixpath
    for host in all_hosts():
        for row in host.files:
            path = path_to_show(row)
            if re.fullmatch(r"\{[A-Z_]+\}", row.path):
                assert path == ""  # nothing but the environment names it, which does not here
                continue
            assert path == rules.normpath(path), host.id
            assert not set(path) & set("{}|~%"), (host.id, path)
            assert rules.isabs(path) is (row.scope != "project"), (host.id, path)
            assert not [part for part in NOT_THERE[system] if part in path], (host.id, path)
            if row.scope in ("user", "local", "extension"):
                assert path.startswith(HOMES[system]), (host.id, path)


def test_a_file_with_the_address_of_a_model_is_below_the_home_folder(system: str) -> None:
    files = [path for host in all_hosts() if host.model for path in model_files(host.model)]
    assert files
    for path in files:
        assert path.startswith(HOMES[system])
        assert not set(path) & set("{}|~%")


def test_every_host_has_a_file_on_every_system(system: str) -> None:
    assert [host.id for host in all_hosts() if not host.files] == []


def test_the_paths_are_those_that_the_hosts_name(system: str) -> None:
    hosts = {host.id: host for host in all_hosts()}
    for (where, name), path in KNOWN.items():
        if where == system:
            assert user_paths(hosts[name])[0] == path


@pytest.mark.parametrize("system", ["windows"], indirect=True)
def test_folders_that_the_environment_names_count(system: str) -> None:
    assert system == "windows"
    host_table.os.environ["APPDATA"] = r"D:\profiles\ada\Roaming"
    host_table.os.environ["CODEX_HOME"] = r"D:\codex"
    hosts = {host.id: host for host in all_hosts()}
    assert user_paths(hosts["vscode"])[0] == r"D:\profiles\ada\Roaming\Code\User\mcp.json"
    assert user_paths(hosts["codex"])[0] == r"D:\codex\config.toml"
    del host_table.os.environ["APPDATA"]
    assert user_paths(hosts["vscode"])[0] == rf"{ROAMING}\Code\User\mcp.json"


@pytest.mark.parametrize("system", ["windows"], indirect=True)
def test_the_store_version_of_claude_desktop_is_looked_for(system: str) -> None:
    assert system == "windows"
    claude = next(host for host in all_hosts() if host.id == "claude-desktop")
    assert user_paths(claude)[1] == (
        r"C:\Users\ada\AppData\Local\Packages\Claude_pzs8sxrjxfjjc\LocalCache\Roaming\Claude"
        r"\claude_desktop_config.json"
    )
