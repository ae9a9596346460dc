"""Every server of every file of the corpus: a wrap changes its command alone, and unwrap undoes it."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import pytest
import tomlkit
import yaml

from mcpproxy.hosts.host_table import all_hosts
from mcpproxy.hosts.ledger import WrapRecord
from mcpproxy.hosts.plans import EntryPlan, plan_file, plan_unwrap, plan_wrap
from mcpproxy.hosts.recorded import is_wrapped
from mcpproxy.hosts.server_entries import Search, ServerEntry, search
from tests.hosts.corpus import LARGE, PLACES, SMALL, Case, cases

PROGRAM: Final = ["/opt/bin/mcpproxy"]

Records = Mapping[tuple[str, tuple[str | int, ...]], WrapRecord]


def found(home: Path, path: Path) -> Search:
    seen = search(str(home / "project"))
    assert not seen.problems
    assert {file.path for file in seen.files.values()} <= {str(path)}
    return seen


def stdio(home: Path, path: Path) -> list[ServerEntry]:
    return [entry for entry in found(home, path).entries if entry.argv and not entry.reason]


def wrapped(entries: list[ServerEntry], path: Path) -> Records:
    """Wrap ``entries``, which are all in ``path``; return the records."""
    steps = [plan_wrap(entry, PROGRAM, None) for entry in entries]
    plan = plan_file([step for step in steps if step])
    path.write_bytes(plan.content)
    return {record.place: record for record in plan.records}


def unwrapped(home: Path, path: Path, records: Records) -> list[EntryPlan]:
    steps = [
        plan_unwrap(entry, records.get(entry.place))
        for entry in found(home, path).entries
        if is_wrapped(entry, records.get(entry.place))
    ]
    path.write_bytes(plan_file(steps).content)
    return steps


def test_the_corpus_is_large_and_has_every_host() -> None:
    assert len(cases()) >= 60
    assert {case.name.partition("/")[0] for case in cases()} == set(PLACES)
    assert {host.id for host in all_hosts()} == {
        host.id for host in all_hosts() for name in PLACES if name.startswith(host.id)
    }


@pytest.mark.parametrize("case", SMALL)
def test_each_server_alone_comes_back_to_the_byte(case: Case, home: Path) -> None:
    path = case.place(home)
    for entry in stdio(home, path):
        records = wrapped([entry], path)
        assert path.read_bytes() != case.data
        (now,) = [one for one in found(home, path).entries if one.wrapping]
        assert now.place == entry.place
        assert now.argv == (*PROGRAM, "--label", entry.label, "--", *entry.argv)
        unwrapped(home, path, records)
        assert path.read_bytes() == case.data


@pytest.mark.parametrize("case", SMALL)
def test_all_servers_together_come_back_to_the_byte(case: Case, home: Path) -> None:
    path = case.place(home)
    if entries := stdio(home, path):
        records = wrapped(entries, path)
        assert len([one for one in found(home, path).entries if one.wrapping]) == len(entries)
        unwrapped(home, path, records)
    assert path.read_bytes() == case.data


@pytest.mark.parametrize("case", SMALL)
def test_an_edit_in_between_stays(case: Case, home: Path) -> None:
    path = case.place(home)
    if entries := stdio(home, path):
        records = wrapped(entries, path)
        path.write_bytes(edited(path.read_bytes(), case.suffix))
        unwrapped(home, path, records)
        assert path.read_bytes() == edited(case.data, case.suffix)


def edited(data: bytes, suffix: str) -> bytes:
    """What somebody has made of a file: something at its head and something at its end."""
    bom = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    body = data.removeprefix(bom)
    match suffix:
        case ".toml":
            return bom + b"added = 1\n" + body + b"\n[also.added]\n"
        case ".yaml":
            head = b"" if body.startswith(b"%") else b"# added\n"
            return bom + head + body + b"# also added\n"
        case _:
            brace = body.index(b"\n{" if body.startswith(b"//") else b"{") + body.startswith(b"//")
            return bom + body[: brace + 1] + b'"added": [1],' + body[brace + 1 :] + b"\n"


@pytest.mark.parametrize("case", SMALL)
def test_without_a_ledger_the_commands_come_back(case: Case, home: Path) -> None:
    path = case.place(home)
    before = stdio(home, path)
    if before:
        wrapped(before, path)
        unwrapped(home, path, {})
    after = stdio(home, path)
    assert [(one.place, one.argv) for one in after] == [(one.place, one.argv) for one in before]
    assert [one.digest() for one in after] == [one.digest() for one in before]


STRICT: Final = [param for param in SMALL if cast("Case", param.values[0]).suffix in (".toml", ".yaml")]


def parsed(data: bytes, suffix: str) -> Any:
    """What another reader of the language sees."""
    text = data.decode("utf-8-sig")
    match suffix:
        case ".toml":
            return tomllib.loads(text)
        case ".yaml":
            return yaml.safe_load(text)
        case _:
            return json.loads(text)


@pytest.mark.parametrize("case", STRICT)
def test_other_readers_see_nothing_else_changed(case: Case, home: Path) -> None:
    path = case.place(home)
    entries = stdio(home, path)
    before = parsed(case.data, case.suffix)
    if entries:
        wrapped(entries, path)
    only_commands_changed(before, parsed(path.read_bytes(), case.suffix), entries)


def only_commands_changed(before: Any, after: Any, entries: list[ServerEntry]) -> None:
    for entry in entries:
        assert entry.shape is not None
        assert entry.shape.args is not None
        one, other = at(before, entry), at(after, entry)
        key, args = str(entry.shape.command[-1]), str(entry.shape.args[-1])
        assert other.pop(key) == PROGRAM[0]
        former = [one.pop(key), *(one.pop(args, None) or ())]
        assert other.pop(args) == ["--label", entry.label, "--", *former]
    assert repr(after) == repr(before)  # NaN is not equal to itself


def at(value: Any, entry: ServerEntry) -> dict[str, Any]:
    for step in entry.at:
        value = value[step]
    return value


@pytest.mark.parametrize("case", SMALL)
def test_strict_json_stays_strict_json(case: Case, home: Path) -> None:
    try:
        before = json.loads(case.data.decode("utf-8-sig"))
    except ValueError:
        return  # it has comments, or is no JSON
    path = case.place(home)
    if entries := stdio(home, path):
        wrapped(entries, path)
    after = json.loads(path.read_bytes().decode("utf-8-sig"))
    for entry in entries:
        assert entry.shape is not None
        for value in (before, after):
            entry.remove_command(at(value, entry))
    assert after == before


@pytest.mark.parametrize("case", LARGE)
def test_a_file_of_a_megabyte_is_wrapped_and_edited_and_comes_back_to_the_byte(
    case: Case, home: Path
) -> None:
    path = case.place(home)
    entries = stdio(home, path)
    records = wrapped(entries, path)
    assert len([one for one in found(home, path).entries if one.wrapping]) == len(entries) > 0
    data = path.read_bytes()
    only_commands_changed(parsed(case.data, case.suffix), parsed(data, case.suffix), entries)
    path.write_bytes(edited(data, case.suffix))
    unwrapped(home, path, records)
    assert path.read_bytes() == edited(case.data, case.suffix)


@pytest.mark.parametrize("param", [*STRICT, *LARGE])
def test_tomlkit_keeps_the_bytes_of_every_file(param: Case) -> None:
    if param.suffix == ".toml":
        text = param.data.decode("utf-8-sig")
        assert tomlkit.dumps(tomlkit.parse(text)) == text
