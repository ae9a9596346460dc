"""``mcpproxy show``: calls at 80 columns, one call in detail, filters, and which recording is meant."""

import json
import re
from array import array
from pathlib import Path

import pytest

from mcpproxy.base.style import columns
from mcpproxy.read.view import details
from mcpproxy.read.view.details import places
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import CLEAN, FAULTY
from tests.view.situations import SITUATIONS, begun, failed_tool, forecast, text, write

GOLDEN = Path(__file__).with_name("show_situations.txt").read_text(encoding="utf-8")
EXPECTED = dict(re.findall(r"^=== (.+)\n((?:(?!=== ).*\n)*)", GOLDEN, re.MULTILINE))


@pytest.fixture
def eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A width of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.usefixtures("eighty")
def test_a_situation_at_80_columns(mcpproxy: Mcpproxy, tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "t.jsonl", SITUATIONS[name])
    shown = mcpproxy("show", path)
    assert (shown.code, shown.err) == (0, "")
    first, *lines = shown.out.splitlines()
    assert first == path
    assert "\n".join(lines).strip() == EXPECTED[name].strip()
    assert max(map(columns, lines)) <= 80


def test_a_long_name_leaves_room_for_its_answer_in_a_narrow_terminal(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    session = begun()
    session.asks(2, "resources/read", {"uri": "note://groceries/of/this/week"}, ms=100)
    session.answers(2, {"contents": [{"uri": "note://g", "text": "milk, bread"}]}, ms=101)
    lines = mcpproxy("show", write(tmp_path / "t.jsonl", session.closes(ms=200))).out.splitlines()
    (line,) = (line for line in lines if "resources/read" in line)
    assert line == "   4   0.100 resources/read note://… → milk, bread   1.00 ms"
    assert max(map(columns, lines[1:])) <= 60


def test_nothing_is_cut_in_a_pipe(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    out = mcpproxy("show", write(tmp_path / "t.jsonl", SITUATIONS["server request in a call"])).out
    assert (
        '\n   4   0.100 tools/call forecast {"city":"Springfield"} → Springfield, Ohio: rain  2.05 s\n' in out
    )


def test_a_filter_leaves_what_passes_and_says_so(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", failed_tool())
    out = mcpproxy("show", path, "--filter", "status:error").out
    assert "no such city: Atlantis" in out
    assert "initialize desk" not in out
    assert "1 row of 4 shown: status:error" in out
    frames = mcpproxy("show", path, "--filter", "status:error", "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in frames[1:]] == [6, 7]


@pytest.mark.parametrize("option", ["--full", "--http"])
def test_the_records_of_all_calls_are_found_without_a_search_for_each(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """A search goes through the whole index, so one for each call would be quadratic."""
    searches: list[int] = []

    def search(column: "array[int]", value: int, start: int = 0) -> list[int]:
        searches.append(value)
        return places(column, value, start)

    monkeypatch.setattr(details, "places", search)
    path = write(tmp_path / "t.jsonl", SITUATIONS["server request in a call"])
    assert "forecast" in mcpproxy("show", path, option).out
    assert not searches


def test_a_filter_that_cannot_be_read_is_one_line(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    said = mcpproxy("show", write(tmp_path / "t.jsonl", failed_tool()), "--filter", "statsu:error")
    assert said.code == 2
    assert said.err.startswith("mcpproxy: filter, column 1: there is no statsu:; do you mean status:?")


def test_one_call_in_detail(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    out = mcpproxy("show", write(tmp_path / "t.jsonl", SITUATIONS["finding"]), "--call", "5").out
    assert "message  frame 7" in out
    assert "← looking up Oslo ..." in out
    assert "└ error STDIO-002 server wrote something to stdout" in out
    assert "https://modelcontextprotocol.io/specification/2025-11-25" in out


def test_a_call_that_is_not_there(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", failed_tool())
    said = mcpproxy("show", path, "--call", "57")
    assert (said.code, said.err) == (2, f"mcpproxy: {path}: there is no call 57; the last is 4\n")


def test_full_lays_messages_out(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.answers(2, text("rain\nthen sun " + "and sun " * 40), ms=112)
    out = mcpproxy("show", "--full", write(tmp_path / "t.jsonl", session.closes(ms=200))).out
    assert '                 "params": {"name": "forecast", "arguments": {"city": "Oslo"}}\n' in out
    assert '"rain\n' in out
    assert "and sun " * 40 in out


def test_http_shows_the_heads(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    out = mcpproxy("show", "--http", write(tmp_path / "t.jsonl", SITUATIONS["HTTP with SSE"])).out
    assert "→ #2 POST /mcp\n" in out
    assert "← #2 200, event stream\n" in out


def test_an_error_that_does_not_fit_is_never_cut(mcpproxy: Mcpproxy, tmp_path: Path, eighty: None) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Atlantis"), ms=100)
    session.fails(2, -32602, "there is no city of that name: " + "it sank. " * 20, ms=112)
    out = mcpproxy("show", write(tmp_path / "t.jsonl", session.closes(ms=200))).out
    said = " ".join(line.strip() for line in out.splitlines()[8:13])
    assert "✗ error -32602: there is no city of that name: " + ("it sank. " * 20).strip() in said


def test_the_reason_of_a_refusal_by_mcpproxy_is_never_cut(
    mcpproxy: Mcpproxy, tmp_path: Path, eighty: None
) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Atlantis"), ms=100)
    why = "cannot connect to 127.0.0.1:1 (Connection refused); is the server running?"
    error = {"code": -32000, "message": f"mcpproxy: {why}"}
    session.says("server", {"jsonrpc": "2.0", "id": 2, "error": error}, 112, by="proxy")
    out = mcpproxy("show", write(tmp_path / "t.jsonl", session.closes(ms=200))).out
    assert f"refused by mcpproxy: {why}" in " ".join(out.split())


def test_east_asian_characters_take_two_columns(mcpproxy: Mcpproxy, tmp_path: Path, eighty: None) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("東京都千代田区" * 5), ms=100)
    session.answers(2, text("晴れ" * 30), ms=112)
    out = mcpproxy("show", write(tmp_path / "t.jsonl", session.closes(ms=200))).out
    assert max(map(columns, out.splitlines()[1:])) <= 80


# Which recording


@pytest.fixture
def three(state_dir: Path) -> list[str]:
    """Three recordings in the state directory, the oldest first."""
    state_dir.mkdir(parents=True)
    names = ("102030.000Z-files-11", "112030.000Z-weather-12", "122030.000Z-files-13")
    return [recordings.write(state_dir / f"20261121T{name}.jsonl", CLEAN) for name in names]


HANDLES = {
    "nothing is the latest": ((), 2),
    "-1 is the latest": (("-1",), 2),
    "-2 is the one before it": (("-2",), 1),
    "-3 is the one before that": (("-3",), 0),
    "a label is the latest with it": (("files",), 2),
    "another label": (("weather",), 1),
    "a part of the name": (("er-12",), 1),
    "the whole name without its end": (("20261121T102030.000Z-files-11",), 0),
}


@pytest.mark.parametrize(("handle", "expected"), HANDLES.values(), ids=HANDLES)
def test_a_handle(mcpproxy: Mcpproxy, three: list[str], handle: tuple[str, ...], expected: int) -> None:
    shown = mcpproxy("show", *handle)
    assert (shown.code, shown.out.splitlines()[0]) == (0, three[expected])
    guess = "the only recording with this in its name"
    said = f"mcpproxy: er-12, {guess}: {three[expected]}\n" if handle == ("er-12",) else ""
    assert shown.err == said
    for command in ("check", "stats"):
        said = mcpproxy(command, *handle)
        assert said.code == 0
        assert said.err.endswith(f": {three[expected]}\n")


def test_the_failed_calls_of_all_recordings_the_latest_first(mcpproxy: Mcpproxy, state_dir: Path) -> None:
    (state_dir / "validate" / "run").mkdir(parents=True)
    names = [f"20261121T1{hour}2030.000Z-weather-1.jsonl" for hour in range(3)]
    for name, situation in zip(names, ("failed tool", "slow call", "failed tool"), strict=True):
        write(state_dir / name, SITUATIONS[situation])
    write(state_dir / "validate" / "run" / names[2], SITUATIONS["failed tool"])
    said = mcpproxy("show", "--all", "--filter", "status:error")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    headings = [line for line in lines if line.startswith(str(state_dir))]
    about = "weather, 2026-11-21 10:20:30 UTC"
    assert headings == [f"{state_dir / name} {about}" for name in (names[2], names[0])]
    assert [line.split()[2:4] for line in lines if "tools/call" in line] == [["tools/call", "forecast"]] * 2
    assert lines[-1] == "2 rows in 2 of 3 recordings: status:error"
    none = mcpproxy("show", "--all", "--filter", "method:no-such-method")
    assert (none.code, none.out) == (0, "0 rows in 0 of 3 recordings: method:no-such-method\n")


def test_of_all_recordings_one_that_cannot_be_read_is_named_at_the_end(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    write(tmp_path / "good.jsonl", SITUATIONS["failed tool"])
    (tmp_path / "bad.jsonl").write_text("not a trace\n")
    said = mcpproxy("show", "--all", str(tmp_path), "--filter", "status:error")
    assert said.code == 2
    assert said.out.endswith("1 row in 1 of 2 recordings: status:error\n")
    assert said.err.startswith(f"mcpproxy: {tmp_path / 'bad.jsonl'}")
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize("option", [("--call", "1"), ("--follow",), ("--json",), ("--frames", "1-2")])
def test_what_is_of_one_recording_is_not_for_all(mcpproxy: Mcpproxy, option: tuple[str, ...]) -> None:
    said = mcpproxy("show", "--all", *option)
    assert (said.code, said.err) == (2, f"mcpproxy: {option[0]}: is not for --all; name one recording\n")


def test_without_recordings_all_says_how_to_record(mcpproxy: Mcpproxy) -> None:
    assert "nothing recorded yet; record a session" in mcpproxy("show", "--all").err


def test_an_ambiguous_handle_lists_the_candidates(mcpproxy: Mcpproxy, three: list[str]) -> None:
    said = mcpproxy("show", "20261121")
    names = ", ".join(Path(path).name for path in reversed(three))
    assert said.code == 2
    assert said.err == (
        f"mcpproxy: 20261121: 3 recordings have this in their name; write more of one of {names}\n"
    )


def test_a_handle_beyond_the_first(mcpproxy: Mcpproxy, three: list[str], state_dir: Path) -> None:
    said = mcpproxy("show", "-4")
    fact = f"there are 3 recordings in {state_dir}"
    assert (said.code, said.err) == (2, f"mcpproxy: -4: {fact}; see mcpproxy list\n")


def test_a_file_comes_before_a_handle(
    mcpproxy: Mcpproxy, three: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recordings.write(tmp_path / "files", FAULTY)
    assert mcpproxy("show", "files").out.startswith("files\n")


def test_diff_compares_the_last_two(mcpproxy: Mcpproxy, three: list[str]) -> None:
    assert mcpproxy("diff").code == 0


def test_for_machines_it_says_which_is_the_latest(mcpproxy: Mcpproxy, three: list[str]) -> None:
    machine = mcpproxy("show", "--json")
    assert machine.err == f"mcpproxy: the latest recording: {three[2]}\n"
    assert json.loads(machine.out.splitlines()[0])["path"] == three[2]


@pytest.mark.parametrize(
    ("written", "frames"),
    [(("--frames", "-2"), [1, 2]), (("--frames=4-",), [4, 5]), (("--frames",), [1, 2, 3, 4, 5])],
)
def test_frames_with_and_without_a_range(
    mcpproxy: Mcpproxy, tmp_path: Path, written: tuple[str, ...], frames: list[int]
) -> None:
    path = recordings.write(tmp_path / "t.jsonl", FAULTY)
    out = mcpproxy("show", *written, path).out
    assert [int(line[:5]) for line in out.splitlines()[4:] if line[:5].strip()] == frames


def test_show_of_a_folder_names_the_command_for_all(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    for name in ("t", "u"):
        recordings.write(tmp_path / f"{name}.jsonl", CLEAN)
    refused = mcpproxy("show", str(tmp_path), "--filter", "kind:request")
    fact = f"mcpproxy: {tmp_path}: a folder with 2 recordings, and one is needed; "
    assert (refused.code, refused.err) == (2, f"{fact}mcpproxy show --all {tmp_path} shows all of them\n")
    assert mcpproxy("show", "--all", str(tmp_path), "--filter", "kind:request").code == 0
