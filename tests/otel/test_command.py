"""``mcpproxy export otlp``: files, collectors, and what it refuses."""

import json
import os
import stat
from pathlib import Path

import pytest

from mcpproxy.base import extras
from mcpproxy.cli.main import main
from tests.otel.decoding import decoded, exported
from tests.otel.receiver import receiving
from tests.otel.sessions import SESSIONS
from tests.view.situations import SITUATIONS, write


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return write(tmp_path / "s.jsonl", SITUATIONS["finding"])


def refusal(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["export", *argv]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    return said.err


def test_a_file_beside_the_recording(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "otlp", trace]) == 0
    file = tmp_path / "s.otlp"
    assert [span.name for span in decoded(file.read_bytes())][-1] == "mcp.session"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert capsys.readouterr().err == f"mcpproxy: {file}: 4 spans\n"
    assert "exists already; name another file with -o" in refusal(capsys, "otlp", trace)


def test_json_has_the_same_spans_with_hexadecimal_ids(trace: str, tmp_path: Path) -> None:
    spans = exported(trace, tmp_path / "a.otlp")
    assert main(["export", "otlp", trace, "--json"]) == 0
    (of_resource,) = json.loads((tmp_path / "s.otlp.json").read_bytes())["resourceSpans"]
    (of_scope,) = of_resource["scopeSpans"]
    written = [
        (span["traceId"], span["spanId"], span.get("parentSpanId", ""), int(span["startTimeUnixNano"]))
        for span in of_scope["spans"]
    ]
    assert written == [(span.trace_id, span.id, span.parent, span.started_ns) for span in spans]
    assert [span["kind"] for span in of_scope["spans"]] == [3, 3, 3, 1]


def test_ids_of_links_are_hexadecimal_in_json(tmp_path: Path) -> None:
    trace = write(tmp_path / "s.jsonl", SESSIONS["task"])
    span = next(span for span in exported(trace, tmp_path / "a.otlp") if span.links)
    assert main(["export", "otlp", trace, "--json", "-o", str(tmp_path / "a.json")]) == 0
    text = (tmp_path / "a.json").read_text()
    assert f'"links":[{{"traceId":"{span.trace_id}","spanId":"{span.links[0][1]}"' in text


def test_a_collector_gets_the_spans_of_the_file(
    trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc")
    with receiving() as receiver:
        assert main(["export", "otlp", trace, receiver.url]) == 0
        assert main(["export", "otlp", trace, f"{receiver.url}/v1/traces"]) == 0
    sent = [span.encoded for span in receiver.spans]
    assert sent == 2 * [span.encoded for span in exported(trace, tmp_path / "a.otlp")]
    assert {path for path, _ in receiver.requests} == {"/v1/traces"}
    assert {headers["authorization"] for _, headers in receiver.requests} == {"Basic abc"}
    assert {headers["content-type"] for _, headers in receiver.requests} == {"application/x-protobuf"}


def test_a_collector_that_is_busy_is_asked_again(trace: str) -> None:
    with receiving(answers=[503]) as receiver:
        assert main(["export", "otlp", trace, receiver.url]) == 0
    assert (len(receiver.requests), len(receiver.spans)) == (2, 4)


def test_a_collector_that_takes_none(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    with receiving(answers=[415]) as receiver:
        said = refusal(capsys, "otlp", trace, receiver.url)
    assert said.startswith(f"mcpproxy: {receiver.url}: it answered 415 ")


def test_no_collector(
    trace: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    assert ": not reached" in refusal(capsys, "otlp", trace, "http://127.0.0.1:9")


def test_what_is_refused(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    collector = "http://127.0.0.1:4318"
    assert "--json is for a file" in refusal(capsys, "otlp", trace, collector, "--json")
    assert "-o is for a file" in refusal(capsys, "otlp", trace, collector, "-o", "x")
    assert "is not the URL of a collector" in refusal(capsys, "otlp", trace, "127.0.0.1")
    assert "not a format; did you mean otlp?" in refusal(capsys, "otpl", trace)


def test_an_incomplete_recording_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exported(write(tmp_path / "s.jsonl", SESSIONS["cut off"]), tmp_path / "a.otlp")
    assert "the recording was cut off" in capsys.readouterr().err


def test_the_extra_is_missing(
    trace: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_spec(name: str) -> None:
        return None

    monkeypatch.setattr(extras, "find_spec", no_spec)
    said = refusal(capsys, "otlp", trace)
    assert "python -m pip install 'mcpproxy[otel]'" in said
    assert main(["run", "--otlp", "--", "true"]) == 2
    assert main(["http", "http://127.0.0.1:1", "--otlp"]) == 2
    assert capsys.readouterr().err.count("mcpproxy[otel]") == 2


def test_what_run_refuses(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["run", "--otlp=nowhere", "--", "true"]) == 2
    assert "nowhere is not the URL of a collector" in capsys.readouterr().err
    assert main(["run", "--otlp-content", "--", "true"]) == 2
    assert "--otlp-content needs --otlp" in capsys.readouterr().err
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert main(["run", "--otlp", "--", "true"]) == 2
    assert "grpc, which OTEL_EXPORTER_OTLP_PROTOCOL asks for, is not supported" in capsys.readouterr().err
