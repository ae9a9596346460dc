"""Text that would act on a terminal, or forge a line, in every field of every record, through every command.

The records are made from their classes, so that a field that is new is tried as well. Whatever a command
makes of such a trace, nothing of it reaches stdout, stderr or a report as it is.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

import pytest

from mcpproxy.base.style import PLAIN
from mcpproxy.base.visible import visible
from mcpproxy.cli import comparison_options
from mcpproxy.cli.checking import validation_report
from mcpproxy.judge.session.frame import Close, Event, Finding, Frame
from mcpproxy.peers.replay.diff.comparison import Comparison
from mcpproxy.peers.validate.outcome import Validation
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.record.recorder.stderr_notes import StderrNotes
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.encode import encode, encode_close, encode_continued, encode_finding, encode_header
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.records import CloseRecord, Continued, Encoded, Header, Tally
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy

HOSTILE: Final = (
    "evil\x1b]0;t\x07\x9b31m\x1b[31m\u202e\u2066\u200f\u200b\ufeff\u2028\x85\x7f\x00\t\r\n"
    "::error::forged\n##[error]forged\nmcpproxy: forged\U000e0041\ufe00\u3164"
)
HALVED: Final = f"{HOSTILE}\udc9b"
"""The same with half a character, which only an escape can write."""
FORGED: Final = " ::error file=a::forged ##[error]forged"
"""What the runner of GitHub Actions takes for a command, where a line begins with it."""
TEXTS: Final = (HOSTILE, HALVED, FORGED)

OWN_COMMAND: Final = re.compile(r"::(error|warning|notice) (file=[^:]*,)?title=")

MESSAGES: Final = (
    b'{"jsonrpc":"2.0","id":"x","method":"x","params":{"name":"x","arguments":{"x":["x"]}}}',
    b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x","data":"x"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"x","serverInfo":{"name":"x","version":"x"},"x":1}}',
    b'{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"x","description":"x","inputSchema":{"type":"x"}}]}}',
    b'{"x":"x"}',
    b"no JSON: x",
    b"\xffx",
)


def hints_of(kind: type) -> dict[str, Any]:
    """The types of its fields; those of JSON name themselves."""
    return get_type_hints(kind, localns={"JSON": JSON, "JSONObject": JSONObject, "JSONArray": list[JSON]})


def filled(kind: Any, **members: object) -> Any:
    """A value of a type, with ``x`` for every text in it; ``members`` are given."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return filled(str if str in args else next(arg for arg in args if arg is not NoneType))
    if origin is Literal:
        return args[0]
    if origin is tuple:
        return tuple(filled(arg) for arg in args if arg is not ...)
    if origin is list:
        return [filled(args[0])]
    if origin is dict:
        names = get_args(args[0]) if get_origin(args[0]) is Literal else ["x"]
        return {name: filled(args[1]) for name in names}
    simple: dict[Any, object] = {str: "x", bytes: b"x", bool: False, int: 1, float: 1.0}
    if kind in simple:
        return simple[kind]
    if not hasattr(kind, "__match_args__"):
        return {"x": "x"}
    hints = hints_of(kind)
    return kind(**{name: members.get(name, filled(hints[name])) for name in kind.__match_args__})


def lines() -> Iterator[tuple[str, bytes]]:
    """Every kind of record as a line, with its name."""
    yield "header", encode_header(filled(Header, format=1, redaction="none", transport="stdio"))
    yield "http header", encode_header(filled(Header, format=1, redaction="none", transport="http"))
    for raw in MESSAGES:
        yield "frame", encode(filled(Frame, raw=raw, exchange=0, connection=0, event=None))
        yield "frame over HTTP", encode(filled(Frame, raw=raw), "x")
        yield "frame of a server", encode(Frame(7, "server", raw, by_proxy=True))
    for kind in (*(kind for kind in get_args(Event) if kind not in (Frame, Close)), Encoded):
        yield kind.__name__, encode(filled(kind), "x")
    yield "finding", encode_finding(filled(Finding, frame=1))
    yield "close", encode_close(filled(Close), filled(Tally))
    yield "continued", encode_continued(filled(Continued))


def hostile(value: JSON, text: str) -> Iterator[Any]:
    """The value again and again, each time with ``text`` behind one more of its texts or names."""
    match value:
        case str():
            yield value + text
            yield text
        case dict():
            for name, member in value.items():
                for evil in hostile(member, text):
                    yield value | {name: evil}
                yield {name + text if key == name else key: one for key, one in value.items()}
        case list():
            for at, item in enumerate(value):
                for evil in hostile(item, text):
                    yield [*value[:at], evil, *value[at + 1 :]]
        case _:
            pass


def variants() -> Iterator[tuple[str, str, bool]]:
    """Lines with a hostile text in each place, and whether a reader takes them for a record."""
    for name, line in lines():
        for text in TEXTS:
            for evil in hostile(json.loads(line), text):
                written = json.dumps(evil, ensure_ascii=text is HALVED)
                written = written.replace("\x7f", "\\u007f") if text is HALVED else written
                readable = False
                with contextlib.suppress(NotARecordError):
                    readable = bool(decode(written.encode()))
                yield name, written, readable


def traces(folder: Path) -> Iterator[str]:
    """Traces that hold all of them: together where one does not keep the others from being read."""
    together: list[str] = []
    alone: dict[str, str] = {}
    for number, (name, line, readable) in enumerate(variants()):
        if name.endswith("header"):
            records = (line, *recordings.CLEAN[1:])
        elif readable and name not in ("close", "continued"):
            together.append(line)
            continue
        else:
            records = (*recordings.HANDSHAKE, line)
        kind = f"{name}-{readable}-{len(line)}"
        if kind not in alone:  # Of those that are refused alike, one will do.
            alone[kind] = recordings.write(folder / f"{number}.jsonl", records)
    yield from alone.values()
    yield recordings.write(folder / "stdio.jsonl", (*recordings.HANDSHAKE, *together, recordings.close(1, 1)))
    header = recordings.HEADER.replace('"stdio"', '"http"')
    http = f'{header[:-1]},"mode":"reverse","listen":"http://h","endpoint":"/","upstream":"http://u"}}'
    yield recordings.write(
        folder / f"evil{HOSTILE.replace('/', '').replace(chr(0), '')}.jsonl", (http, *together)
    )


@pytest.fixture(autouse=True)
def in_a_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All hostile traces."""
    folder = tmp_path_factory.mktemp("hostile")
    assert len([*traces(folder)]) > 20
    return folder


def assert_harmless(*texts: str) -> None:
    for text in texts:
        for line in text.split("\n"):
            assert visible(line) == line
            assert not line.startswith(("::error::forged", "##[error]", "mcpproxy: forged"))


def assert_harmless_in_a_log(*texts: str) -> None:
    """The same for what is printed: a line may be in the log of a step, where it is no command but ours."""
    assert_harmless(*texts)
    for line in "\n".join(texts).split("\n"):
        is_command = line.lstrip().startswith("::") or "##[" in line
        assert not is_command or OWN_COMMAND.match(line), line


FORMATS: Final = ("text", "json", "sarif", "junit", "github")

COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "show": ("show", "TRACE"),
    "show --full": ("show", "--full", "TRACE"),
    "show --json": ("show", "--json", "--full", "TRACE"),
    "show --session": ("show", "--session", HOSTILE, "TRACE"),
    **{f"check as {name}": ("check", "--format", name, "TRACE") for name in FORMATS},
    **{f"check into {name}": ("check", "--format", name, "-o", "OUT", "TRACE") for name in FORMATS},
    "check with a baseline": ("check", "--baseline", "OUT", "--write-baseline", "TRACE"),
    "versions": ("versions", "TRACE"),
    "versions as JSON": ("versions", "--format", "json", "TRACE"),
    **{f"diff as {name}": ("diff", "--format", name, "CLEAN", "TRACE") for name in ("text", "json", "junit")},
    "diff the other way": ("diff", "TRACE", "CLEAN"),
    "pin": ("pin", "TRACE", "--file", "OUT"),
    "redact": ("redact", "--preset", "secrets", "TRACE", "-o", "COPY"),
    "trim": ("trim", "TRACE", "-o", "COPY"),
    "import": ("import", "TRACE", "-o", "COPY"),
    "export har": ("export", "har", "TRACE", "-o", "OUT"),
    "export pcapng": ("export", "pcapng", "TRACE", "-o", "COPY"),
    "replay client": ("replay", "client", "TRACE", "--", HOSTILE.replace("\0", "")),
    "an unknown command": (HOSTILE,),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_command_lets_it_through(
    mcpproxy: Mcpproxy,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    clean = recordings.write(tmp_path / "clean.jsonl", recordings.CLEAN)
    for number, trace in enumerate(sorted(folder.iterdir())):
        report = tmp_path / f"{number}.report"
        places = {
            "TRACE": str(trace),
            "OUT": str(report),
            "CLEAN": clean,
            "COPY": str(tmp_path / f"{number}.copy"),
        }
        told = mcpproxy(*(places.get(word, word) for word in command))
        assert_harmless_in_a_log(told.out, told.err)
        if report.exists():
            assert_harmless(report.read_text("utf-8"))
    if summary.exists():
        assert_harmless(summary.read_text("utf-8"))


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["list", "list --json"])
def test_a_list_of_them(mcpproxy: Mcpproxy, folder: Path, options: tuple[str, ...]) -> None:
    told = mcpproxy("list", *options, "--limit", "1000", str(folder))
    assert told.out
    assert_harmless_in_a_log(told.out, told.err)
    for named in (f"{folder}/no{HOSTILE}".replace("\0", ""), HOSTILE.replace("\0", "")):
        assert_harmless_in_a_log(mcpproxy("list", named).err)


@pytest.mark.parametrize("format", ["text", "json", "junit"])
def test_a_comparison(capsys: pytest.CaptureFixture[str], format: str) -> None:
    for comparison in instances(filled(Comparison)):
        comparison_options.report(comparison, format)
    said = capsys.readouterr()
    assert said.out
    assert_harmless_in_a_log(said.out, said.err)


@pytest.mark.parametrize("format", FORMATS)
def test_a_validation(capsys: pytest.CaptureFixture[str], tmp_path: Path, format: str) -> None:
    known = Catalogue({}, {})
    for number, validation in enumerate(instances(filled(Validation, server={"name": "x", "version": "x"}))):
        for path in (None, str(tmp_path / f"{number}")):
            validation_report.report(validation, known, format, path, PLAIN, fixed=None)
            if path:
                assert_harmless(Path(path).read_text("utf-8"))
    said = capsys.readouterr()
    assert said.out
    assert_harmless_in_a_log(said.out, said.err)


class Notes(StderrNotes):
    """What a session is told while it runs."""

    def __init__(self, mode: Literal["text", "json"]) -> None:
        super().__init__(1, mode)

    @property
    def said(self) -> str:
        assert self._lines is not None
        return self._lines.waiting.decode()


@pytest.mark.parametrize("mode", ["text", "json"])
def test_a_live_finding(mode: Literal["text", "json"]) -> None:
    for finding in instances(filled(Finding)):
        notes = Notes(mode)
        notes.show_finding(finding)
        notes.summarize(HOSTILE, Tally(), HOSTILE)
        assert_harmless_in_a_log(notes.said)


def instances(value: Any) -> Iterator[Any]:
    """An object again and again, each time with the hostile text in one more of the texts it reaches."""
    for text in TEXTS:
        yield from _instances(value, text)


def _instances(value: Any, text: str) -> Iterator[Any]:
    match value:
        case str():
            yield text
        case tuple() | list():
            items: list[Any] = [*cast("Sequence[Any]", value)]
            kind: Callable[[list[Any]], object] = tuple if isinstance(value, tuple) else list
            for at, item in enumerate(items):
                for evil in _instances(item, text):
                    yield kind([*items[:at], evil, *items[at + 1 :]])
        case dict():
            yield from hostile(cast("JSON", value), text)
        case _ if hasattr(value, "__match_args__"):
            made: type = value.__class__
            members = {name: getattr(value, name) for name in value.__match_args__}
            for name, hint in hints_of(made).items():
                if name in members and get_origin(hint) is not Literal:
                    for evil in _instances(members[name], text):
                        yield made(**members | {name: evil})
        case _:
            pass


def test_every_record_is_tried() -> None:
    tried = {type(decode(line)) for _, line in lines()}
    assert tried == {*get_args(Event), Encoded, Finding, Header, CloseRecord, Continued} - {Close}
