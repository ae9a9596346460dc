"""``wrap`` and ``unwrap``, as a user types them."""

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.base import files
from mcpproxy.hosts import plans
from tests.hosts.conftest import Mcpproxy, Outcome

OURS: Final = "/opt/bin/mcpproxy"

FILES: Final = '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"]}}}\n'
WRAPPED: Final = (
    '{"mcpServers": {"files": {"command": "/opt/bin/mcpproxy", '
    '"args": ["--label", "cursor.files", "--", "npx", "-y", "files"]}}}\n'
)
REMOTE: Final = '{"mcpServers": {"sentry": {"url": "https://mcp.sentry.dev/mcp?x=1"}}}\n'


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] # pytest uses it
    monkeypatch.setattr(plans, "own_program", lambda: [OURS])


@pytest.fixture
def cursor(home: Path) -> Path:
    return write(home / ".cursor/mcp.json", FILES)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# One server


def test_a_server_is_wrapped_and_unwrapped(mcpproxy: Mcpproxy, cursor: Path, state_dir: Path) -> None:
    done = mcpproxy("wrap", "files")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "wrapped files of Cursor in ~/.cursor/mcp.json",
        "Cursor: turn the server off and on in Cursor's MCP settings, or restart Cursor",
        f"recordings will be in {state_dir}; mcpproxy list shows them",
        "if a host does not pass XDG_STATE_HOME on, they will be in ~/.local/state/mcpproxy",
    ]
    assert cursor.read_text() == WRAPPED

    undone = mcpproxy("unwrap", "files")
    assert (undone.code, undone.err) == (0, "")
    assert undone.out == (
        "unwrapped files in ~/.cursor/mcp.json: the file is as it was before, to the byte\n"
    )
    assert cursor.read_text() == FILES
    assert json.loads((state_dir / "hosts" / "ledger.json").read_text())["wraps"] == []


def test_a_dry_run_shows_the_change_and_writes_nothing(
    mcpproxy: Mcpproxy, cursor: Path, state_dir: Path
) -> None:
    shown = mcpproxy("wrap", "files", "--dry-run")
    assert shown.out.splitlines()[2:] == ["@@ -1 +1 @@", f"-{FILES.strip()}", f"+{WRAPPED.strip()}"]
    assert cursor.read_text() == FILES
    assert not state_dir.exists()


def test_to_wrap_again_changes_nothing(mcpproxy: Mcpproxy, cursor: Path) -> None:
    mcpproxy("wrap", "files")
    again = mcpproxy("wrap", "files")
    assert (again.code, again.out) == (0, "")
    assert again.err == "mcpproxy: files is wrapped already (~/.cursor/mcp.json)\n"
    assert cursor.read_text() == WRAPPED


def test_an_older_path_of_ours_is_refreshed(
    mcpproxy: Mcpproxy, cursor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mcpproxy("wrap", "files")
    monkeypatch.setattr(plans, "own_program", lambda: ["/new/mcpproxy"])
    assert mcpproxy("wrap", "files").code == 0
    assert cursor.read_text() == WRAPPED.replace(OURS, "/new/mcpproxy")
    mcpproxy("unwrap", "files")
    assert cursor.read_text() == FILES


class KilledError(BaseException):
    """Nothing of the program runs after it, as after a kill."""


def killed(*args: object) -> None:
    raise KilledError


def test_a_refresh_that_is_killed_before_the_file_is_written_is_undone_exactly(
    mcpproxy: Mcpproxy, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = '{"mcpServers": {"files": {"command": "n\\u0070x"}}}\n'  # without args, and with an escape
    path = write(home / ".cursor/mcp.json", plain)
    mcpproxy("wrap", "files")
    wrapped = path.read_text(encoding="utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(plans, "own_program", lambda: ["/new/mcpproxy"])
        patched.setattr(plans, "replace_content", killed)
        with pytest.raises(KilledError):
            mcpproxy("wrap", "files")
    assert path.read_text(encoding="utf-8") == wrapped
    assert mcpproxy("unwrap", "files").code == 0
    assert path.read_text(encoding="utf-8") == plain


def test_a_wrap_by_hand_is_recognised_and_taken_out(mcpproxy: Mcpproxy, home: Path) -> None:
    by_hand = FILES.replace('"npx", "args": [', '"mcpproxy", "args": ["--quiet", "--", "npx", ')
    cursor = write(home / ".cursor/mcp.json", by_hand)
    assert "wrapped already" in mcpproxy("wrap", "files").err
    assert mcpproxy("unwrap", "files").code == 0
    assert cursor.read_text() == FILES


def test_the_other_product_of_this_name_is_not_a_wrap(mcpproxy: Mcpproxy, home: Path) -> None:
    cursor = write(home / ".cursor/mcp.json", FILES.replace('"npx"', '"mcpproxy"').replace('"-y"', '"serve"'))
    assert "is not wrapped" in mcpproxy("unwrap", "files").err
    assert "starts mcpproxy itself" in mcpproxy("hosts").out
    assert '"serve"' in cursor.read_text()


def test_options_that_were_added_by_hand_do_not_hinder_unwrap(mcpproxy: Mcpproxy, cursor: Path) -> None:
    mcpproxy("wrap", "files")
    cursor.write_text(WRAPPED.replace('["--label"', '["--trace-dir", "/srv", "--label"'))
    assert mcpproxy("unwrap", "files").code == 0
    assert cursor.read_text() == FILES


def test_a_file_that_the_host_has_written_anew_is_unwrapped(mcpproxy: Mcpproxy, cursor: Path) -> None:
    mcpproxy("wrap", "files")
    cursor.write_text(json.dumps(json.loads(cursor.read_text()), indent=4))
    mcpproxy("unwrap", "files")
    assert cursor.read_text() == json.dumps(json.loads(FILES), indent=4)


# What is kept


def test_mode_and_link_stay(mcpproxy: Mcpproxy, cursor: Path, home: Path) -> None:
    target = home / "dotfiles.json"
    cursor.rename(target)
    cursor.symlink_to(target)
    target.chmod(0o640)
    mcpproxy("wrap", "files")
    assert cursor.is_symlink()
    assert target.read_text() == WRAPPED
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert sorted(os.listdir(home)) == [".cursor", "dotfiles.json", "project"]


def test_extended_attributes_stay(mcpproxy: Mcpproxy, cursor: Path) -> None:
    if not hasattr(os, "setxattr"):
        pytest.skip("only Linux has them")
    os.setxattr(cursor, "user.note", b"mine")
    mcpproxy("wrap", "files")
    assert os.getxattr(cursor, "user.note") == b"mine"


def test_what_is_remembered_is_for_its_owner_alone(mcpproxy: Mcpproxy, cursor: Path, state_dir: Path) -> None:
    mcpproxy("wrap", "files")
    mcpproxy("hosts")
    for name in ("ledger.json", "looks.json", "lock"):
        assert stat.S_IMODE((state_dir / "hosts" / name).stat().st_mode) == 0o600


# Which program


def test_a_file_under_version_control_gets_the_bare_name(mcpproxy: Mcpproxy, home: Path) -> None:
    path = write(home / "project/.mcp.json", FILES)
    done = mcpproxy("wrap", "files")
    assert path.read_text() == WRAPPED.replace(OURS, "mcpproxy").replace("cursor.files", "project.files")
    assert "~/project/.mcp.json is under version control: others who use it need mcpproxy" in done.out
    assert "is read by Claude Code, Cursor, VS Code" in done.out
    assert "Claude Code asks again whether to use the servers of .mcp.json" in done.out


def test_the_user_may_name_the_command(mcpproxy: Mcpproxy, cursor: Path) -> None:
    mcpproxy("wrap", "files", "--command", "uvx mcpproxy")
    said = json.loads(cursor.read_text())["mcpServers"]["files"]
    assert [said["command"], *said["args"]] == [
        *("uvx", "mcpproxy", "--label", "cursor.files", "--", "npx", "-y", "files"),
    ]
    assert "wrapped already" in mcpproxy("wrap", "files", "--command", "uvx mcpproxy").err
    mcpproxy("unwrap", "files")
    assert cursor.read_text() == FILES


def test_a_debugged_server_is_wrapped_with_a_note(mcpproxy: Mcpproxy, home: Path) -> None:
    write(home / ".config/Code/User/mcp.json", '{"servers": {"a": {"command": "x", "dev": {}}}}')
    assert "note: VS Code debugs only what it starts as node or python" in mcpproxy("wrap", "a").out


def test_a_server_in_a_sandbox_is_left_alone(mcpproxy: Mcpproxy, home: Path) -> None:
    entries = {
        "boxed": {"command": "x", "sandboxEnabled": True},
        "free": {"command": "x", "sandboxEnabled": False, "dev": None},
    }
    path = write(home / ".config/Code/User/mcp.json", json.dumps({"servers": entries}))
    assert "boxed is left alone: in a sandbox, where mcpproxy starts only" in refused(
        mcpproxy, "wrap", "boxed"
    )
    done = mcpproxy("wrap", "--all", "--yes")
    assert "note:" not in done.out
    said = json.loads(path.read_text())["servers"]
    assert (said["boxed"], said["free"]["command"]) == (entries["boxed"], OURS)


# All servers


@pytest.fixture
def several(home: Path) -> dict[Path, bytes]:
    paths = [
        write(home / ".cursor/mcp.json", FILES),
        write(home / ".codex/config.toml", '[mcp_servers.git]\ncommand = "uvx" # here\n'),
        write(
            home / ".config/goose/config.yaml", "extensions:\n  fetch: {type: stdio, cmd: uvx, args: [x]}\n"
        ),
        write(home / "project/.mcp.json", FILES.replace("files", "db")),
        write(home / ".codeium/windsurf/mcp_config.json", REMOTE),
    ]
    return {path: path.read_bytes() for path in paths}


def test_all_are_wrapped_and_unwrapped(mcpproxy: Mcpproxy, several: dict[Path, bytes]) -> None:
    done = mcpproxy("wrap", "--all", "--yes")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("wrapped ") == 4
    changed = [path for path, data in several.items() if path.read_bytes() != data]
    assert len(changed) == 4
    undone = mcpproxy("unwrap", "--all", "--yes")
    assert (undone.code, undone.err) == (0, "")
    assert {path: path.read_bytes() for path in several} == several
    assert mcpproxy("unwrap", "--all", "--yes").err == "mcpproxy: nothing is wrapped\n"


class Terminal:
    """A terminal on which somebody answers, after ``before`` has happened."""

    def __init__(self, answer: str, before: "tuple[Path, str] | None" = None) -> None:
        self.answer = answer
        self.before = before

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        if self.before:
            self.before[0].write_text(self.before[1])
        return self.answer


def test_all_asks_first(
    mcpproxy: Mcpproxy, several: dict[Path, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    refused = mcpproxy("wrap", "--all")
    assert refused.err == "wrap 4 servers in 4 files? [y/N] mcpproxy: nothing was written\n"
    assert "Cursor  ~/.cursor/mcp.json\n  files  files\n" in refused.out
    assert {path: path.read_bytes() for path in several} == several
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert "wrapped git of Codex" in mcpproxy("wrap", "--all").out


def test_unwrapping_all_asks_first(
    mcpproxy: Mcpproxy, several: dict[Path, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    mcpproxy("wrap", "--all", "--yes")
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    kept = mcpproxy("unwrap", "--all")
    assert kept.err == "unwrap 4 servers in 4 files? [y/N] mcpproxy: nothing was written\n"
    assert "Cursor  ~/.cursor/mcp.json\n  files  files\n" in kept.out
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert "unwrapped git in ~/.codex/config.toml" in mcpproxy("unwrap", "--all").out
    assert {path: path.read_bytes() for path in several} == several


def test_one_damaged_file_hinders_no_other(
    mcpproxy: Mcpproxy, several: dict[Path, bytes], home: Path
) -> None:
    bad = write(home / ".gemini/settings.json", '{"mcpServers": {')
    done = mcpproxy("wrap", "--all", "--yes")
    assert done.code == 2
    assert done.err == (
        f"mcpproxy: {bad}:1:17: not readable as JSON (it ends too early); correct or simplify it first\n"
    )
    assert done.out.count("wrapped ") == 4


def test_files_of_another_project_are_unwrapped_too(
    mcpproxy: Mcpproxy, several: dict[Path, bytes], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mcpproxy("wrap", "--all", "--yes")
    monkeypatch.chdir(home)
    mcpproxy("unwrap", "--all", "--yes")
    assert {path: path.read_bytes() for path in several} == several


def test_a_file_of_several_projects_means_the_current_one(mcpproxy: Mcpproxy, home: Path) -> None:
    entry = {"mcpServers": {"db": {"command": "x"}}}
    projects = {str(home / "project"): entry, "/srv/shop": entry}
    path = write(home / ".claude.json", json.dumps({"projects": projects}))
    done = mcpproxy("wrap", "db")
    taken = "db: the one of this project in ~/.claude.json; also in Claude Code (~/.claude.json)"
    assert (done.code, done.err) == (0, f"mcpproxy: {taken}\n")
    said = json.loads(path.read_text())["projects"]
    assert said["/srv/shop"] == entry
    assert said[str(home / "project")]["mcpServers"]["db"]["command"] == OURS
    assert "  db (/srv/shop)" in mcpproxy("hosts").out
    other = ("--file", str(path), "--key", "projects/~1srv~1shop/mcpServers")
    assert mcpproxy("wrap", "db", *other).code == 0
    assert mcpproxy("unwrap", "--all", "--yes").code == 0
    assert json.loads(path.read_text()) == {"projects": projects}


def test_a_folder_that_the_environment_names_may_be_anywhere(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    path = write(tmp_path / "codex/config.toml", '[mcp_servers.a]\ncommand = "x"\n')
    assert mcpproxy("wrap", "a").code == 0
    assert OURS in path.read_text()


def test_a_file_that_is_moved_behind_a_link_is_still_known(
    mcpproxy: Mcpproxy, cursor: Path, home: Path
) -> None:
    mcpproxy("wrap", "files")
    target = home / "dotfiles.json"
    cursor.rename(target)
    cursor.symlink_to(target)
    assert mcpproxy("hosts").out.count("files   files  wrapped by /opt/bin/mcpproxy") == 1
    assert mcpproxy("unwrap", "files").code == 0
    assert target.read_text() == FILES


def test_a_server_that_is_named_twice_is_wrapped_once(mcpproxy: Mcpproxy, cursor: Path) -> None:
    assert mcpproxy("wrap", "files", "files").code == 0
    assert cursor.read_text() == WRAPPED
    assert mcpproxy("unwrap", "files", "files").code == 0
    assert cursor.read_text() == FILES


def test_every_file_that_a_host_merges_is_looked_at(mcpproxy: Mcpproxy, home: Path) -> None:
    text = '{"mcp": {"%s": {"type": "local", "command": ["x"]}}}'
    one = write(home / ".config/opencode/opencode.json", text % "one")
    two = write(home / ".config/opencode/opencode.jsonc", text % "two")
    assert mcpproxy("wrap", "one", "two").code == 0
    assert OURS in one.read_text()
    assert OURS in two.read_text()


# Remote servers


def test_a_remote_server_is_pointed_at_a_proxy(mcpproxy: Mcpproxy, home: Path) -> None:
    path = write(home / ".cursor/mcp.json", REMOTE)
    done = mcpproxy("wrap", "sentry", "--http")
    assert "mcpproxy http https://mcp.sentry.dev --listen 127.0.0.1:8765 --label cursor.sentry\n" in done.out
    assert path.read_text() == REMOTE.replace("https://mcp.sentry.dev", "http://127.0.0.1:8765")
    assert "needs mcpproxy http, listening at 127.0.0.1:8765" in mcpproxy("hosts").out
    mcpproxy("unwrap", "sentry")
    assert path.read_text() == REMOTE


def test_a_dry_run_shows_what_a_remote_server_would_need(mcpproxy: Mcpproxy, home: Path) -> None:
    path = write(home / ".cursor/mcp.json", REMOTE)
    needed = "mcpproxy http https://mcp.sentry.dev --listen 127.0.0.1:8765 --label cursor.sentry"
    dry = mcpproxy("wrap", "sentry", "--http", "--dry-run")
    assert dry.err == f"mcpproxy: sentry would then need this, running all the time: {needed}\n"
    assert path.read_text() == REMOTE
    assert f"running all the time: {needed}\n" in mcpproxy("wrap", "sentry", "--http").out


def test_a_dry_run_shows_tabs_as_they_are(mcpproxy: Mcpproxy, home: Path) -> None:
    write(home / ".cursor/mcp.json", '{\n\t"mcpServers": {\n\t\t"a": {"command": "x\\u0007"}\n\t}\n}\n')
    shown = mcpproxy("wrap", "a", "--dry-run").out
    assert '\n-\t\t"a": {"command": "x\\u0007"}\n+\t\t"a": ' in shown


def test_each_remote_server_has_an_address_of_its_own(mcpproxy: Mcpproxy, home: Path) -> None:
    text = '{"mcpServers": {"a": {"url": "https://a/mcp"}, "b": {"serverUrl": "https://b/mcp"}}}'
    path = write(home / ".cursor/mcp.json", text)
    mcpproxy("wrap", "a", "--http")
    mcpproxy("wrap", "--all", "--http", "--yes")
    assert "127.0.0.1:8765/mcp" in path.read_text()
    assert "127.0.0.1:8766/mcp" in path.read_text()
    mcpproxy("unwrap", "--all", "--yes")
    assert path.read_text() == text


def test_the_path_of_a_remote_server_is_the_endpoint_of_the_proxy(mcpproxy: Mcpproxy, home: Path) -> None:
    path = write(home / ".cursor/mcp.json", REMOTE.replace("/mcp?x=1", ":8443/v1/sse?key=${KEY}&b=1"))
    done = mcpproxy("wrap", "sentry", "--http", "--listen", "127.0.0.1:9000")
    assert (
        "mcpproxy http https://mcp.sentry.dev:8443 --listen 127.0.0.1:9000 --label cursor.sentry "
        "--endpoint /v1/sse\n" in done.out
    )
    assert '"http://127.0.0.1:9000/v1/sse?key=${KEY}&b=1"' in path.read_text()


def test_a_second_wrap_keeps_the_address_of_the_proxy(mcpproxy: Mcpproxy, home: Path) -> None:
    path = write(home / ".cursor/mcp.json", REMOTE)
    mcpproxy("wrap", "sentry", "--http")
    path.write_text(REMOTE)
    mcpproxy("wrap", "sentry", "--http")
    assert "http://127.0.0.1:8765/mcp?x=1" in path.read_text()


@pytest.mark.parametrize(
    "url",
    [
        "${URL}",
        "https://${HOST}/mcp",
        "https://h/${PATH}",
        "https://me:secret@h/mcp",
        "http://[::1/mcp",
        "ws://h/",
    ],
)
def test_a_remote_server_at_an_address_that_is_not_known(mcpproxy: Mcpproxy, home: Path, url: str) -> None:
    write(home / ".cursor/mcp.json", json.dumps({"mcpServers": {"a": {"url": url}}}))
    assert "remote, reached over HTTP" in mcpproxy("hosts").out
    assert refused(mcpproxy, "wrap", "a", "--http") == (
        "~/.cursor/mcp.json: a is left alone: remote, at a URL with variables or a user in it; "
        "mcpproxy hosts lists what can be wrapped"
    )
    assert mcpproxy("wrap", "--all", "--http", "--yes").err == (
        "mcpproxy: nothing to wrap; mcpproxy hosts lists the servers\n"
    )


@pytest.mark.parametrize("listen", ["8765", "bad:listen:1", "127.0.0.1:99999", "127.0.0.1:0"])
def test_an_address_to_listen_at_that_cannot_be_right(mcpproxy: Mcpproxy, home: Path, listen: str) -> None:
    write(home / ".cursor/mcp.json", REMOTE)
    assert "--listen" in refused(mcpproxy, "wrap", "sentry", "--http", "--listen", listen)


def test_an_address_to_listen_at_that_another_server_has(mcpproxy: Mcpproxy, home: Path) -> None:
    write(home / ".cursor/mcp.json", REMOTE)
    write(home / ".kimi/mcp.json", REMOTE.replace("sentry", "other"))
    mcpproxy("wrap", "sentry", "--http")
    assert refused(mcpproxy, "wrap", "other", "--http", "--listen", "127.0.0.1:8765") == (
        "127.0.0.1:8765: the address of sentry; choose another with --listen"
    )


# Any other file


def test_a_file_of_an_unknown_host(mcpproxy: Mcpproxy, home: Path) -> None:
    text = '{"my": {"servers": {"a": {"cmd": "x"}}}}'
    path = write(home / "agent.json", text)
    assert mcpproxy("wrap", "a", "--file", str(path), "--key", "my/servers").code == 0
    assert json.loads(path.read_text())["my"]["servers"]["a"] == {
        "cmd": OURS,
        "args": ["--label", "a", "--", "x"],
    }
    mcpproxy("unwrap", "a", "--file", str(path), "--key", "my/servers")
    assert path.read_text() == text


def test_a_file_of_an_unknown_host_with_a_usual_key(mcpproxy: Mcpproxy, home: Path) -> None:
    path = write(home / "agent.json", FILES)
    assert mcpproxy("wrap", "files", "--file", str(path)).code == 0
    mcpproxy("unwrap", "--all", "--yes")
    assert path.read_text() == FILES


# Bad input: one clear line, exit code 2, nothing written


def refused(mcpproxy: Mcpproxy, *argv: str) -> str:
    """The one line with which a command is refused; no file in the home folder has changed."""
    home = Path(os.environ["HOME"])
    before = contents(home)
    done = mcpproxy(*argv)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert contents(home) == before
    return line.removeprefix("mcpproxy: ").replace(str(home), "~")


def contents(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_a_file_that_does_not_parse(mcpproxy: Mcpproxy, home: Path) -> None:
    write(home / ".codex/config.toml", "[mcp_servers.a\ncommand = 1\n")
    line = refused(mcpproxy, "wrap", "a")
    assert line.startswith("~/.codex/config.toml:1:")
    assert line.endswith("; correct or simplify it first")


def test_a_file_that_is_valid_but_too_deep_is_not_called_damaged(mcpproxy: Mcpproxy, home: Path) -> None:
    write(
        home / ".cursor/mcp.json",
        f'{{"mcpServers": {{"a": {{"command": "x", "y": {"[" * 250}{"]" * 250}}}}}}}',
    )
    line = refused(mcpproxy, "wrap", "a")
    assert "not readable as JSON (more than 200 levels); correct or simplify it first" in line


def test_a_file_that_is_not_utf_8(mcpproxy: Mcpproxy, home: Path) -> None:
    path = home / ".cursor/mcp.json"
    path.parent.mkdir()
    path.write_bytes(FILES.encode("utf-16"))
    assert refused(mcpproxy, "wrap", "files") == "~/.cursor/mcp.json: not UTF-8 (byte 0); save it as UTF-8"


def test_a_damaged_file_hides_no_misspelling(mcpproxy: Mcpproxy, cursor: Path, home: Path) -> None:
    write(home / ".gemini/settings.json", '{"mcpServers": {')
    assert refused(mcpproxy, "wrap", "fils") == (
        "fils: no host has a server of this name; did you mean files of Cursor?"
    )
    assert refused(mcpproxy, "wrap", "zzz").startswith("~/.gemini/settings.json:1:17: not readable as JSON")


def test_a_server_that_does_not_exist(mcpproxy: Mcpproxy, cursor: Path) -> None:
    assert refused(mcpproxy, "wrap", "fils") == (
        "fils: no host has a server of this name; did you mean files of Cursor?"
    )
    assert (
        refused(mcpproxy, "unwrap", "zzz")
        == "zzz: no host has a server of this name; mcpproxy hosts lists them"
    )


def test_two_hosts_with_the_same_name(mcpproxy: Mcpproxy, cursor: Path, home: Path) -> None:
    write(home / ".kimi/mcp.json", FILES)
    assert refused(mcpproxy, "wrap", "files") == (
        "files: 2 servers have this name: cursor (~/.cursor/mcp.json), kimi (~/.kimi/mcp.json); "
        "say which with --host"
    )
    assert mcpproxy("wrap", "files", "--host", "kimi").code == 0
    assert mcpproxy("unwrap", "files").code == 0  # only one of them is wrapped


def test_a_host_that_does_not_exist(mcpproxy: Mcpproxy, cursor: Path) -> None:
    assert refused(mcpproxy, "wrap", "files", "--host", "cursr") == (
        "wrap: no host is called cursr; did you mean cursor?"
    )


def test_a_read_only_file(mcpproxy: Mcpproxy, cursor: Path) -> None:
    cursor.chmod(0o444)
    assert refused(mcpproxy, "wrap", "files") == "~/.cursor/mcp.json: read-only; nothing was written"


def test_a_link_out_of_the_home_folder(mcpproxy: Mcpproxy, cursor: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.json"
    cursor.rename(target)
    cursor.symlink_to(target)
    assert refused(mcpproxy, "wrap", "files").startswith(
        "~/.cursor/mcp.json: a link that leads out of its folder"
    )
    assert target.read_text() == FILES


def test_a_hard_link(mcpproxy: Mcpproxy, cursor: Path, home: Path) -> None:
    os.link(cursor, home / "other-name.json")
    assert "2 names lead to it" in refused(mcpproxy, "wrap", "files")


def test_a_file_that_changes_between_reading_and_writing(
    mcpproxy: Mcpproxy, cursor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = FILES.replace("npx", "bunx")
    monkeypatch.setattr("sys.stdin", Terminal("y\n", before=(cursor, changed)))
    done = mcpproxy("wrap", "--all")
    assert done.code == 2
    assert "changed since it was read; nothing was written; try again" in done.err
    assert cursor.read_text() == changed
    assert os.listdir(cursor.parent) == ["mcp.json"]
    assert mcpproxy("hosts").out.endswith("not wrapped\n")


def test_a_file_that_its_host_has_locked(
    mcpproxy: Mcpproxy, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpproxy.hosts.config_writer._LOCK_WAIT_S", 0)
    path = write(home / ".cline/data/settings/cline_mcp_settings.json", FILES)
    lock = Path(f"{path}.lock")
    lock.mkdir()
    assert "locked by its host" in refused(mcpproxy, "wrap", "files")
    assert lock.exists()
    os.utime(lock, (0, 0))  # its holder died long ago
    monkeypatch.setattr("mcpproxy.hosts.config_writer._LOCK_WAIT_S", 5)
    assert mcpproxy("wrap", "files").code == 0
    assert not lock.exists()


def test_a_lock_that_another_process_took_for_stale(
    mcpproxy: Mcpproxy, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(home / ".cline/data/settings/cline_mcp_settings.json", FILES)
    replace = os.replace

    def slow(draft: str, target: str) -> None:
        replace(draft, target)
        if target == str(path):
            Path(f"{path}.lock").rmdir()

    monkeypatch.setattr(os, "replace", slow)
    done = mcpproxy("wrap", "files")
    assert (done.code, done.err) == (0, "")
    mcpproxy("unwrap", "files")
    assert path.read_text() == FILES


def test_one_file_that_cannot_be_written_hinders_no_other(
    mcpproxy: Mcpproxy, cursor: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = write(home / ".kimi/mcp.json", FILES.replace("files", "other"))
    replace = os.replace

    def refuse(draft: str, target: str) -> None:
        if target == str(full):
            raise OSError(28, "No space left on device")
        replace(draft, target)

    with monkeypatch.context() as context:
        context.setattr(os, "replace", refuse)
        done = mcpproxy("wrap", "files", "other")
    assert done.code == 2
    assert done.err == f"mcpproxy: {full}: cannot be written (no space left on device); nothing was written\n"
    assert done.out.startswith("wrapped files of Cursor")
    mcpproxy("wrap", "other")
    with monkeypatch.context() as context:
        context.setattr(os, "replace", refuse)
        done = mcpproxy("unwrap", "other", "files")
    assert (done.code, cursor.read_text()) == (2, FILES)
    assert mcpproxy("unwrap", "--all", "--yes").code == 0
    assert "other" in full.read_text()
    assert OURS not in full.read_text()


def test_a_remote_server(mcpproxy: Mcpproxy, home: Path) -> None:
    write(home / ".cursor/mcp.json", REMOTE)
    assert refused(mcpproxy, "wrap", "sentry") == (
        "~/.cursor/mcp.json: sentry is left alone: remote, reached over HTTP; "
        "with --http its host can be pointed at mcpproxy http instead"
    )


def test_an_entry_that_is_left_alone(mcpproxy: Mcpproxy, home: Path) -> None:
    manifest = {"name": "notes", "server": {"type": "node", "mcp_config": {"command": "node", "args": ["x"]}}}
    path = home / ".config/Claude/Claude Extensions/ada.notes/manifest.json"
    write(path, json.dumps(manifest))
    assert "notes is left alone: part of an extension, which Claude Desktop signs and updates" in refused(
        mcpproxy, "wrap", "notes"
    )


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("wrap", "wrap: no server was named; name a server, or say --all"),
        ("wrap files --all", "wrap: --all and a name were given; name a server, or say --all"),
        ("wrap --all", "wrap --all: asks first, and there is no terminal to ask on; add --yes, or --dry-run"),
        ("unwrap --all --yes --dry", "unwrap: unknown option --dry"),
        ("wrap files --file x.json", "x.json: no such file; a host makes its own file; mcpproxy makes none"),
        ("wrap files --key a", "wrap: --key needs --file; see mcpproxy wrap --help"),
        ("wrap files --project x", "x: no such folder; nothing was written"),
        ("wrap files --command rm", "wrap: --command rm does not start mcpproxy; for example --command /opt"),
        ("wrap files --listen h:1", "wrap: --listen is for one server; use it with --http and"),
        ("unwrap", "unwrap: no server was named; name a server, or say --all; mcpproxy hosts lists them"),
    ],
)
def test_arguments_that_cannot_be_right(
    mcpproxy: Mcpproxy, cursor: Path, monkeypatch: pytest.MonkeyPatch, argv: str, line: str
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    done = mcpproxy(*argv.split())
    assert done.code == 2
    assert done.err.startswith(f"mcpproxy: {line}")
    assert done.err.count("\n") == 1
    assert cursor.read_text() == FILES


class FullDisk:
    """Has room for the ledger ``times`` times."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._replace = files.replace

    def replace(self, path: str, parts: Iterable[bytes], mode: int) -> None:
        self._times -= 1
        if self._times < 0:
            raise OSError(28, "No space left on device")
        self._replace(path, parts, mode)


def on_a_full_disk(mcpproxy: Mcpproxy, times: int, *argv: str) -> Outcome:
    """What a command does that can write the ledger so often, and no more."""
    with pytest.MonkeyPatch.context() as context:
        context.setattr(files, "replace", FullDisk(times).replace)
        return mcpproxy(*argv)


@pytest.mark.parametrize(
    ("text", "name", "options", "way_back"),
    [
        (FILES, "files", (), ("unwrap", "--all", "--yes")),
        (FILES, "files", (), ("unwrap", "files")),
        (FILES.replace('["-y", "files"]', "[ ]"), "files", (), ("unwrap", "--all", "--yes")),
        (REMOTE, "sentry", ("--http",), ("unwrap", "--all", "--yes")),
        (REMOTE, "sentry", ("--http",), ("unwrap", "sentry")),
    ],
)
def test_a_ledger_that_cannot_be_written_afterwards(
    mcpproxy: Mcpproxy,
    home: Path,
    state_dir: Path,
    text: str,
    name: str,
    options: tuple[str, ...],
    way_back: tuple[str, ...],
) -> None:
    path = write(home / ".cursor/mcp.json", text)
    told = (
        f"mcpproxy: {state_dir / 'hosts/ledger.json'}: cannot be written (no space left on device); "
        f"{path} was written all the same, and mcpproxy hosts will record it\n"
    )
    wrapped = on_a_full_disk(mcpproxy, 1, "wrap", name, *options)
    assert (wrapped.code, wrapped.err) == (2, told)
    assert wrapped.out.startswith(f"wrapped {name} of Cursor in ~/.cursor/mcp.json\n")
    assert path.read_text() != text
    assert mcpproxy(*way_back).code == 0
    assert path.read_text() == text

    mcpproxy("wrap", name, *options)
    unwrapped = on_a_full_disk(mcpproxy, 1, *way_back)
    assert (unwrapped.code, unwrapped.err) == (2, told)
    assert unwrapped.out.startswith(f"unwrapped {name} in ~/.cursor/mcp.json: ")
    assert path.read_text() == text
    assert " is gone" not in mcpproxy("hosts").out
    assert records(state_dir) == []


def test_after_a_full_disk_hosts_records_the_wrap(mcpproxy: Mcpproxy, cursor: Path, state_dir: Path) -> None:
    on_a_full_disk(mcpproxy, 1, "wrap", "--all", "--yes")
    assert [record["state"] for record in records(state_dir)] == ["wrapping"]
    assert "  wrapped by " in mcpproxy("hosts").out
    assert [record["state"] for record in records(state_dir)] == ["wrapped"]
    mcpproxy("unwrap", "files")
    assert cursor.read_text() == FILES


def test_a_ledger_that_cannot_be_written_at_all(mcpproxy: Mcpproxy, cursor: Path, state_dir: Path) -> None:
    refusal = f"mcpproxy: {state_dir / 'hosts/ledger.json'}: cannot be written (no space left on device); "
    done = on_a_full_disk(mcpproxy, 0, "wrap", "files")
    assert (done.code, done.out, done.err) == (2, "", f"{refusal}nothing was written\n")
    assert cursor.read_text() == FILES

    mcpproxy("wrap", "files")
    cursor.unlink()
    done = on_a_full_disk(mcpproxy, 0, "unwrap", "files")
    assert (done.code, done.out, done.err) == (2, "", f"{refusal}nothing was forgotten\n")


def test_a_file_and_a_ledger_that_cannot_be_written(
    mcpproxy: Mcpproxy, cursor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("y\n", before=(cursor, FILES.replace("npx", "bunx"))))
    done = on_a_full_disk(mcpproxy, 1, "wrap", "--all")
    assert done.code == 2
    assert f"{cursor}: changed since it was read; nothing was written; try again" in done.err
    assert mcpproxy("hosts").out.endswith("not wrapped\n")


def records(state_dir: Path) -> list[dict[str, object]]:
    return json.loads((state_dir / "hosts" / "ledger.json").read_text())["wraps"]


def test_a_damaged_ledger(mcpproxy: Mcpproxy, cursor: Path, state_dir: Path) -> None:
    mcpproxy("wrap", "files")
    book = state_dir / "hosts" / "ledger.json"
    book.write_text('{"version": 1, "wraps": [{}]}')
    line = refused(mcpproxy, "unwrap", "files")
    assert line == f"{book}: damaged; move it away; unwrap then goes by the commands in the files"
    book.unlink()
    assert mcpproxy("unwrap", "files").code == 0
    assert cursor.read_text() == FILES
