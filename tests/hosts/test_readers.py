"""The corpus, read back by the parser of VS Code: nothing but the wrapped commands has changed."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

from mcpproxy.hosts.server_entries import ServerEntry
from tests.hosts.corpus import Case, cases
from tests.hosts.test_corpus import PROGRAM, at, stdio, wrapped
from tests.peers import install
from tests.peers.fixtures import had

HERE: Final = Path(__file__).parent
JSONC: Final = ("jsonc-parser@3.3.1",)


@cache
def _modules() -> Path | install.PeerUnavailableError:
    try:
        return install.node_packages("jsonc-parser", JSONC)
    except install.PeerUnavailableError as unavailable:
        return unavailable


def seen(paths: list[Path]) -> dict[str, dict[str, Any]]:
    """What jsonc-parser sees in files, by path."""
    command = ["node", str(HERE / "readers.mjs"), str(had(_modules())), *map(str, paths)]
    read: dict[str, dict[str, Any]] = json.loads(
        subprocess.run(command, check=True, capture_output=True).stdout
    )
    assert all(one["errors"] == [] for one in read.values())
    return read


def test_jsonc_parser_sees_the_same_apart_from_the_commands(home: Path, tmp_path: Path) -> None:
    chosen = [case for case in cases() if case.suffix not in (".toml", ".yaml")]
    assert len(chosen) > 50
    before = [_copy(tmp_path / "before", number, case) for number, case in enumerate(chosen)]
    after: list[Path] = []
    entries: dict[int, list[ServerEntry]] = {}
    for number, case in enumerate(chosen):
        path = case.place(home)
        entries[number] = stdio(home, path)
        if entries[number]:
            wrapped(entries[number], path)
        after.append(_copy(tmp_path / "after", number, Case(case.name, path.read_bytes())))
        path.unlink()
    read = seen([*before, *after])
    for number, case in enumerate(chosen):
        one, other = read[str(before[number])]["value"], read[str(after[number])]["value"]
        for entry in entries[number]:
            assert entry.shape is not None
            node = at(other, entry)
            for step in entry.shape.command[:-1]:
                node = node[str(step)]
            command = node[str(entry.shape.command[-1])]
            ours = [*PROGRAM, "--label", entry.label, "--", *entry.argv]
            if entry.shape.args is None:
                assert command == ours
            else:
                assert [command, *node[str(entry.shape.args[-1])]] == ours
            for value in (one, other):
                entry.remove_command(at(value, entry))
        assert one == other, case.name


def _copy(folder: Path, number: int, case: Case) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{number}{case.suffix}"
    path.write_bytes(case.data)
    return path
