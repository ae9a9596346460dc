"""What mcpproxy did to a call because the user asked for it is said wherever the call is shown."""

from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.cli.main import main
from mcpproxy.judge.session.frame import CLIENT, SERVER, FaultMark, Frame
from mcpproxy.read.view.calls import Role
from mcpproxy.read.view.index import saved_index
from mcpproxy.read.view.interventions import interventions
from mcpproxy.read.view.view import open_view
from mcpproxy.show.tui.call_lines import call_line
from mcpproxy.show.tui.detail_lines import detail_lines
from tests.agents.agent import Agent
from tests.view.situations import Conversation, begun, forecast, text, write

EDITED: Final = "request edited by mcpproxy"


def asks(city: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": forecast(city)}


def answers(said: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 2, "result": text(said)}


FAILS: Final = {"jsonrpc": "2.0", "id": 2, "error": {"code": -32000, "message": "no"}}


def talk_of(*frames: tuple[str, dict[str, Any], str, bool]) -> Conversation:
    """A session with frames: who sends, what, what a fault does to it, and whether mcpproxy gave it."""
    talk = begun()
    for number, (sender, message, action, is_given) in enumerate(frames):
        fault = {"fault": {"rule": "break 1", "action": action, "number": 1}} if action else {}
        talk.says(sender, message, 100 + 10 * number, **({"by": "proxy"} if is_given else {}), **fault)
    return talk


def an_edited_call() -> Conversation:
    """The client asks for Oslo, a person at a breakpoint gives the server Lima, and the server answers."""
    asked, given = (CLIENT, asks("Oslo"), "pause", False), (CLIENT, asks("Lima"), "pause", True)
    return talk_of(asked, given, (SERVER, answers("Lima: sunny"), "", False))


def test_an_edited_call_says_so_on_every_face(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "s.jsonl", an_edited_call().closes(ms=400))
    with open_view(path) as view:
        detail = view.parts(4)
        assert detail.call.intervention == EDITED
        assert [part.role for part in detail.told] == [Role.REQUEST, Role.GIVEN, Role.ANSWER]
        assert f"({EDITED})" in "".join(span.text for span in call_line(detail.call, 160))
        assert EDITED in "".join(span.text for line in detail_lines(detail, 100) for span in line)
    assert main(["show", path]) == 0
    assert f'{{"city":"Oslo"}} → Lima: sunny ({EDITED})' in capsys.readouterr().out
    assert main(["show", path, "--call", "4"]) == 0
    shown = capsys.readouterr().out
    assert EDITED in shown
    assert "given instead" in shown
    with Agent(tmp_path) as agent:
        assert agent("find_calls", filter="tool:*")["found"][0]["calls"][0]["intervention"] == EDITED


def answered(action: str, given: str) -> Conversation:
    """A call whose answer, ``a``, meets a fault; ``given`` takes its place, nothing if it is empty."""
    frames = [(CLIENT, asks("Oslo"), "", False), (SERVER, answers("a"), action, False)]
    return talk_of(*frames, *([(SERVER, answers(given), action, True)] if given else []))


CASES: Final = {
    "request edited by mcpproxy": an_edited_call(),
    "answer edited by mcpproxy": answered("set", "b"),
    "answer changed by mcpproxy": answered("truncate", "b"),
    "answer held by mcpproxy": answered("pause", "a"),
    "answer delayed by mcpproxy": answered("delay", "a"),
    "answer not passed on by mcpproxy": answered("drop", ""),
    "answered by mcpproxy": talk_of((CLIENT, asks("Oslo"), "error", False), (SERVER, FAILS, "error", True)),
    "": answered("wait", "a"),
}


@pytest.mark.parametrize("words", CASES)
def test_what_mcpproxy_did_has_words(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_index, "cache_dir", lambda: str(tmp_path / "cache" / "index"))
    monkeypatch.setattr("mcpproxy.read.view.index.indexed_trace.SMALLEST_SAVED_BYTES", 0)
    path = write(tmp_path / "s.jsonl", CASES[words].closes(ms=400))
    for _ in range(2):  # the second time from the index that was kept
        with open_view(path) as view:
            assert [call.intervention for call in view.calls()] == ["", "", "", words]
    assert list((tmp_path / "cache" / "index").iterdir())


def test_the_row_has_the_answer_that_the_client_got(tmp_path: Path) -> None:
    def result(talk: Conversation) -> str:
        with open_view(write(tmp_path / "s.jsonl", talk.closes(ms=400))) as view:
            return view.call(4).result

    assert result(answered("set", "b")) == "b"
    assert result(answered("delay", "a")) == "a"
    assert result(CASES["answered by mcpproxy"]) == "no"
    assert result(an_edited_call()) == "Lima: sunny"
    cut = answered("truncate", "")
    cut.says(SERVER, '{"jsonrpc":', 130, by="proxy", fault={"rule": "b", "action": "truncate", "number": 1})
    assert result(cut) == '{"jsonrpc":'


def test_what_is_still_held_is_not_called_lost() -> None:
    held = Frame(1, CLIENT, b"{}", fault=FaultMark("break 1", "pause", 1))
    assert interventions([held], CLIENT, is_running=True) == "request held by mcpproxy"


def test_an_empty_event_is_called_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk = Conversation(http=True)
    talk.posts(1, ms=10)
    talk.asks(1, "tools/call", forecast("Oslo"), ms=11, exchange=1, connection=1)
    talk.responds(1, 200, ms=20, sse=True)
    event = {"before": "id: 7\nretry: 500\ndata: ", "after": "\n\n", "id": "7", "retry": 500}
    talk.says(SERVER, "", 21, exchange=1, connection=1, event={"name": None, **event})
    path = write(tmp_path / "s.jsonl", talk.closes(ms=400))
    words = "empty event, id 7, retry after 500 ms: lets the client resume"
    with open_view(path) as view:
        detail = view.parts(1)
        assert [part.summary for part in detail.parts if part.role is Role.OTHER] == [words]
        assert words in "".join(span.text for line in detail_lines(detail, 120) for span in line)
    for more in ("--call=1", "--full"):
        assert main(["show", path, more]) == 0
        assert words in capsys.readouterr().out
