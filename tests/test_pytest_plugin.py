"""The pytest plugin in a project that uses it: its four modes, its findings, what it says.

The project has a small weather server, which notes what it is asked, and a client of a few lines. Each run is
a pytest with the plugin and nothing else.
"""

import json
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

import mcpproxy
from mcpproxy import testing
from mcpproxy.read import opening
from tests import documents
from tests.peers.fixtures import Peers
from tests.plugin_project import HTTP_SERVER, Project, load_mcpproxy

__all__ = ["load_mcpproxy"]

pytest_plugins = ("pytester",)

ROOT: Final = Path(__file__).parent.parent

OSLO: Final = """
def test_oslo(mcp_recording):
    with Client(mcp_recording.command, first_id=7) as client:
        assert client.forecast("Oslo") == "Oslo: sunny"
"""

LIMA: Final = """
def test_lima(mcp_recording):
    with Client(mcp_recording.command) as client:
        assert client.forecast("Lima") == "Lima: sunny"
"""


def has_failed(result: pytest.RunResult) -> bool:
    """Whether the one test failed, at its end or, where its recorder is behind, a moment after it."""
    outcomes = result.parseoutcomes()
    return outcomes.get("failed", 0) + outcomes.get("errors", 0) in {1, 2}


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(pytester, monkeypatch)


# Faults

DOWN: Final = """
@pytest.mark.mcp_faults("from:server tool:forecast => error {\\"message\\": \\"down\\"}, nth 2", seed=7)
def test_a_failing_server(mcp_recording, mcp_findings):
    with Client(mcp_recording.command) as client:
        assert client.forecast("Oslo") == "Oslo: sunny"
        with pytest.raises(AssertionError, match="down"):
            client.forecast("Oslo")
"""

SETS: Final = """
@pytest.mark.parametrize("mcp_faults", ["lying-server", "=> delay 1ms"], indirect=True)
def test_each(mcp_recording, mcp_faults):
    with Client(mcp_recording.command) as client:
        assert client.forecast("Oslo") == "Oslo: sunny"
"""


def test_faults_meet_a_live_server_and_a_replay_and_are_not_kept(project: Project) -> None:
    project.run(DOWN).assert_outcomes(passed=1)
    assert (project.asked, project.recordings.exists()) == (["tools/call"] * 2, False)

    twice = OSLO.replace('sunny"\n', 'sunny"\n        client.forecast("Oslo")\n')
    project.run(twice).assert_outcomes(passed=1)
    before = (project.recordings / "weather.jsonl").read_bytes()
    project.run(DOWN).assert_outcomes(passed=1)
    assert project.asked == []
    assert (project.recordings / "weather.jsonl").read_bytes() == before


def test_a_test_is_run_with_each_set(project: Project) -> None:
    project.has_recorded(OSLO)
    project.run(SETS).assert_outcomes(passed=2)


def test_rules_that_cannot_be_used_end_the_collection_in_one_line(project: Project) -> None:
    project.has_recorded(OSLO)
    for right, wrong, said in (
        ("error {", "eror {", "--fault: there is no action eror; do you mean error?"),
        (
            '"from:server tool:forecast => error {\\"message\\": \\"down\\"}, nth 2"',
            '"slow-tool"',
            "did you mean slow-tools?",
        ),
    ):
        assert right in DOWN
        result = project.run(DOWN.replace(right, wrong))
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        (line,) = [line for line in (*result.outlines, *result.errlines) if line.startswith("ERROR: ")]
        assert "::test_a_failing_server: mcp_faults: " in line
        assert said in line


@pytest.mark.parametrize("starts", [True, False])
def test_a_parameter_that_is_no_set_fails_its_test_in_one_line(
    project: Project, monkeypatch: pytest.MonkeyPatch, starts: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # pytest cuts the line FAILED, except where CI is set
    project.has_recorded(OSLO)
    tests = SETS.replace("lying-server", "lying-servr")
    if not starts:
        tests = tests.partition("    with ")[0] + "    pass\n"
    result = project.run(tests)
    result.assert_outcomes(passed=1, errors=1)
    said = "lying-servr: no such faults; did you mean lying-server?"
    assert [line for line in result.outlines if "lying-server?" in line] == [
        f"mcp_faults: {said}",
        f"ERROR test_weather.py::test_each[lying-servr] - {said}",
    ]


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("sed=7", "mcp_faults has no sed=; it takes seed="),
        ("seed='x'", "mcp_faults has seed='x'; write a whole number"),
    ],
)
def test_what_a_mark_may_not_have_fails_the_test_in_one_line(
    project: Project, argument: str, said: str
) -> None:
    project.has_recorded(OSLO)
    result = project.run(DOWN.replace("seed=7", argument))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{said}"])
    result.stdout.no_fnmatch_line("*ValueError*")


# The modes


def test_once_records_and_then_replays(project: Project) -> None:
    project.run(OSLO).assert_outcomes(passed=1)
    assert (project.asked, project.cities()) == (["tools/call"], ["Oslo"])

    project.run(OSLO).assert_outcomes(passed=1)
    assert project.asked == []


def test_once_does_not_record_what_is_new(project: Project) -> None:
    project.has_recorded(OSLO)
    result = project.run(LIMA)
    assert has_failed(result)
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: not in the recording: tools/call *forecast*",
            f"E *mcp_recording: 1 request not in {project.recordings / 'weather.jsonl'}:",
            "E *tools/call *forecast*nearest is frame *Oslo*",
            "E *--mcp-record=new adds what is missing, --mcp-record=all records everything again",
            "E *the messages: mcpproxy show *session.jsonl",
        ]
    )
    assert (project.asked, project.cities()) == ([], ["Oslo"])


LENIENT: Final = """
def test_lima(mcp_recording):
    with Client(mcp_recording.command) as client, pytest.raises(AssertionError):
        client.forecast("Lima")
"""

GROUP: Final = """
def test_lima(mcp_recording):
    try:
        with Client(mcp_recording.command) as client:
            client.forecast("Lima")
    except AssertionError as error:
        raise ExceptionGroup("unhandled errors in a TaskGroup", [error, ValueError("and more")])
"""


@pytest.mark.parametrize("tests", [LIMA, GROUP, LENIENT])
def test_the_line_of_a_failed_test_names_the_request_that_is_missing(
    project: Project, monkeypatch: pytest.MonkeyPatch, tests: str
) -> None:
    monkeypatch.setenv("CI", "true")  # where pytest does not cut the line
    project.has_recorded(OSLO)
    result = project.run(tests, "-rfE")
    line = next(
        line for line in result.outlines if line.startswith(("FAILED ", "ERROR ")) and "not rec" in line
    )
    assert line.endswith('::test_lima - not recorded: "forecast": city is "Lima", was "Oslo"')


def test_what_was_missing_stands_above_the_parts_of_a_group(project: Project) -> None:
    project.has_recorded(OSLO)
    result = project.run(GROUP)
    result.stdout.fnmatch_lines(
        [
            "*ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)",
            "*mcp_recording: 1 request not in *",
            "*+-+----* 1 *",
        ]
    )


def test_the_line_of_a_test_that_failed_by_itself_is_its_own(project: Project) -> None:
    tests = STATIONS.replace("(client, ", "(mcp_recording, ").replace(
        "    client.ask",
        "    with Client(mcp_recording.command) as client:\n        client.ask",
    )
    result = project.run(f"{tests}    raise ValueError('of the test')\n", "-vv")
    assert has_failed(result)
    result.stdout.fnmatch_lines(["E *mcp_findings: 1 finding in *"])
    failed = next(n for n, line in enumerate(result.outlines) if line.startswith("FAILED "))
    assert result.outlines[failed].endswith("::test_stations - ValueError: of the test")
    assert result.outlines[failed + 1].startswith("===")


def test_a_miss_that_the_test_does_not_mind_fails_it(project: Project) -> None:
    project.has_recorded(OSLO)
    result = project.run(LENIENT)
    assert has_failed(result)
    result.stdout.fnmatch_lines(["mcp_recording: 1 request not in *"])


def test_none_never_records(project: Project) -> None:
    result = project.run(OSLO, "--mcp-record=none")
    result.assert_outcomes(errors=1)
    path = project.recordings / "weather.jsonl"
    result.stdout.fnmatch_lines(
        [f"mcp_recording: {path}: there is no such recording; record it with --mcp-record=once"]
    )
    assert not path.exists()

    project.has_recorded(OSLO)
    project.run(OSLO, "--mcp-record=none").assert_outcomes(passed=1)
    assert project.asked == []


def test_all_records_anew(project: Project) -> None:
    project.has_recorded(OSLO)
    project.run(LIMA, "--mcp-record=all").assert_outcomes(passed=1)
    assert (project.asked, project.cities()) == (["tools/call"], ["Lima"])


def test_new_adds_what_is_missing(project: Project) -> None:
    project.has_recorded(OSLO)
    both = OSLO.replace("first_id=7", "").replace(
        'sunny"\n', 'sunny"\n        assert client.forecast("Lima") == "Lima: sunny"\n'
    )
    project.run(both, "--mcp-record=new").assert_outcomes(passed=1)
    assert (project.asked, project.cities()) == (["tools/call"], ["Oslo", "Lima"])
    assert mcpproxy.check(project.recordings / "weather.jsonl").findings == ()

    project.run(both, "--mcp-record=none").assert_outcomes(passed=1)
    project.run(OSLO + LIMA, "--mcp-record=none").assert_outcomes(passed=2)
    assert project.asked == []


def test_new_leaves_a_recording_alone_that_has_all(project: Project) -> None:
    project.run(OSLO, "--mcp-record=new").assert_outcomes(passed=1)
    before = (project.recordings / "weather.jsonl").read_bytes()
    project.run(OSLO, "--mcp-record=new").assert_outcomes(passed=1)
    assert ((project.recordings / "weather.jsonl").read_bytes(), project.asked) == (before, [])


@pytest.mark.parametrize("mode", ["once", "all"])
def test_tests_that_share_a_recording_record_into_it(project: Project, mode: str) -> None:
    twice = OSLO + LIMA + LIMA.replace("test_lima", "test_lima_again")
    project.run(twice, f"--mcp-record={mode}").assert_outcomes(passed=3)
    assert (len(project.asked), project.cities()) == (3, ["Oslo", "Lima"])
    project.run(twice, "--mcp-record=none").assert_outcomes(passed=3)


# What a mark says


def test_without_a_name_it_is_that_of_the_test(project: Project) -> None:
    tests = """
class TestWeather:
    @pytest.mark.mcp_recording(name="")
    @pytest.mark.parametrize("city", ["Oslo", "São Paulo"])
    def test_city(self, client, city):
        assert client.forecast(city) == city + ": sunny"
"""
    project.run(tests).assert_outcomes(passed=2)
    names = sorted(path.name for path in (project.recordings / "test_weather").iterdir())
    assert names[0] == "TestWeather.test_city[Oslo].jsonl"
    assert len(names) == 2
    project.run(tests, "--mcp-record=none").assert_outcomes(passed=2)


def test_the_folder_can_be_chosen(project: Project) -> None:
    project.run(OSLO, "-o", "mcp_recordings_dir=tapes").assert_outcomes(passed=1)
    assert not project.recordings.exists()
    assert (project.recordings.parent / "tapes" / "weather.jsonl").is_file()


def test_no_server_to_record_is_said(project: Project) -> None:
    result = project.run(OSLO.replace("def", "@pytest.mark.mcp_recording(command=[])\ndef"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*weather.jsonl: cannot be recorded: the mark gives no command of a server; *"]
    )


def test_a_mark_with_a_slip_is_said(project: Project) -> None:
    result = project.run(OSLO.replace("def", "@pytest.mark.mcp_recording(comand=[])\ndef"))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["@pytest.mark.mcp_recording takes name=, command=, url="])


def test_a_damaged_recording_is_said(project: Project) -> None:
    project.recordings.mkdir()
    (project.recordings / "weather.jsonl").write_text("not a trace\n")
    result = project.run(OSLO)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["mcp_recording: *weather.jsonl:1: not an mcpproxy trace; *"])


def test_a_server_that_is_left_running_is_said(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = """
LEFT = []

def test_oslo(mcp_recording):
    LEFT.append(Client(mcp_recording.command))

def test_the_end():
    LEFT.pop().close()
"""
    monkeypatch.setattr(testing, "_END_S", 0.1)
    result = project.run(tests)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*the server of this test still runs; let the client end it *"])


def test_a_recorder_that_is_behind_is_waited_for(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is over, whatever the time that its recorder still needs: here more than ten seconds."""
    await_finish = opening.await_finish

    def slow(trace: str, within_s: float) -> bool:
        return within_s > 10 and await_finish(trace, within_s)

    monkeypatch.setattr(opening, "await_finish", slow)
    project.run(OSLO).assert_outcomes(passed=1)
    assert project.cities() == ["Oslo"]


# Findings

STATIONS: Final = """
def test_stations(client, mcp_findings):
    client.ask("tools/call", name="stations")
"""


def test_findings_fail_a_test(project: Project) -> None:
    result = project.run(
        STATIONS.replace("(client, ", "(mcp_recording, ").replace(
            "    client.ask", "    with Client(mcp_recording.command) as client:\n        client.ask"
        )
    )
    assert has_failed(result)
    result.stdout.fnmatch_lines(
        [
            "mcp_findings: 1 finding in what this test's client and server said",
            "  error PROTO-007 server answered * (frame 5*",
            "    https://modelcontextprotocol.io/specification/2025-11-25/*",
            "  the messages: mcpproxy show *session.jsonl",
            "what a rule means: mcpproxy explain PROTO-007",
        ]
    )


def test_what_a_fixture_keeps_open_is_judged_when_it_ends(project: Project) -> None:
    for _ in ("recorded", "replayed"):
        result = project.run(STATIONS)
        result.assert_outcomes(passed=1, errors=1)
        result.stdout.fnmatch_lines(["  error PROTO-007 server answered * (frame 5*"])
    assert project.asked == []


def test_without_findings_a_test_passes(project: Project) -> None:
    project.run(OSLO.replace("(mcp_recording)", "(mcp_recording, mcp_findings)")).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("mark", "outcome"),
    [
        ("ignore='PROTO-007'", {"passed": 1}),
        ("select=['LIFE']", {"passed": 1}),
        ("level='info', select='PROTO'", {"passed": 1, "errors": 1}),
        ("level='fatal'", {"errors": 1}),
        ("select='PROTOO'", {"passed": 1, "errors": 1}),
    ],
)
def test_what_counts_can_be_chosen(project: Project, mark: str, outcome: dict[str, int]) -> None:
    result = project.run(STATIONS.replace("def", f"@pytest.mark.mcp_findings({mark})\ndef"))
    result.assert_outcomes(**outcome)


def test_the_level_can_be_set_for_all(project: Project) -> None:
    loud = OSLO.replace("(mcp_recording)", "(mcp_recording, mcp_findings)").replace(
        "client.forecast", 'client.send(method="notifications/nonsense") or client.forecast'
    )
    level = ("-o", "mcp_findings_level=info")
    project.run(loud).assert_outcomes(passed=1)
    result = project.run(loud, *level)
    assert has_failed(result)


def test_findings_can_be_looked_at(project: Project) -> None:
    tests = """
@pytest.mark.mcp_findings(ignore="PROTO-007")
def test_stations(mcp_recording, mcp_findings):
    with Client(mcp_recording.command) as client:
        client.ask("tools/call", name="stations")
    [report] = mcp_findings.reports()
    assert (report.ok, report.revision) == (True, "2025-11-25")
"""
    project.run(tests).assert_outcomes(passed=1)


# Hosts

BARE: Final = """
from pathlib import Path

SCHEMA = '{"type": "object", "properties": {"of": {"type": "array"}}}'
Path("bare.py").write_text(Path("server.py").read_text().replace('{"type": "object"}', SCHEMA))


@pytest.mark.mcp_recording("bare", command=[sys.executable, "bare.py"])
@pytest.mark.mcp_findings(hosts="HOSTS")
def test_tools(mcp_recording, mcp_findings):
    with Client(mcp_recording.command) as client:
        assert len(client.ask("tools/list")["tools"]) == 1
    [report] = mcp_findings.reports()
    print({host.id: host.state for host in report.hosts})
"""


def test_a_server_has_to_work_in_the_hosts_that_a_test_names(project: Project) -> None:
    result = project.run(BARE.replace("HOSTS", "vscode,codex"), "-rA")
    assert has_failed(result)
    result.stdout.fnmatch_lines(
        [
            "mcp_findings: 1 finding in what this test's client and server said",
            "  warning HOST-010 server: Legal MCP. VS Code refuses the tools if an array in a schema has no "
            'items: tool "forecast" (/properties/of)*',
            "what a rule means: mcpproxy explain HOST-010",
        ]
    )
    result.stdout.fnmatch_lines(["{'vscode': 'blocked', 'codex': 'works'}"])
    project.run(BARE.replace("HOSTS", "codex,gemini-cli")).assert_outcomes(passed=1)
    project.run(BARE.replace('(hosts="HOSTS")', "")).assert_outcomes(passed=1)


def test_a_host_that_is_not_known_is_told_at_once(project: Project) -> None:
    result = project.run(BARE.replace("HOSTS", "vscod"))
    result.assert_outcomes(errors=1)
    told = "nothing is known of a host 'vscod'; did you mean vscode?"
    result.stdout.fnmatch_lines([f"*mcp_findings: hosts: {told}*"])


# Over HTTP

OVER_HTTP: Final = """
import json, urllib.request
import server_http


class Posts(Client):
    def __init__(self, url):
        self.url, self.id, self.session = url, 0, {"mcp-protocol-version": "2025-11-25"}
        about = {"name": "test", "version": "1"}
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=about)
        self.send(method="notifications/initialized")

    def send(self, **message):
        wanted = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        request = urllib.request.Request(self.url, body, wanted | self.session)
        with urllib.request.urlopen(request, timeout=60) as answer:
            if id := answer.headers["mcp-session-id"]:
                self.session["mcp-session-id"] = id
            text = answer.read().decode()
        return text.partition("data: ")[2] if text.startswith("event: ") else text

    def ask(self, method, **params):
        self.id += 1
        answer = json.loads(self.send(id=self.id, method=method, params=params))
        assert "result" in answer, answer["error"]["message"]
        return answer["result"]


def asks(recording, *cities):
    client = Posts(recording.url)
    assert [client.forecast(city) for city in cities] == [f"{city}: sunny" for city in cities]
    assert recording.url == client.url


SERVER = server_http.started()
URL = f"http://127.0.0.1:{SERVER.server_port}/mcp"


@pytest.fixture(scope="module", autouse=True)
def ended():
    yield
    SERVER.shutdown()
    SERVER.server_close()
"""

OVER_HTTP_OSLO: Final = (
    OVER_HTTP
    + """
@pytest.mark.mcp_recording(url=URL)
def test_oslo(mcp_recording, mcp_findings):
    asks(mcp_recording, "Oslo")
"""
)


@pytest.fixture
def http_project(project: Project, pytester: pytest.Pytester) -> Project:
    pytester.makepyfile(server_http=HTTP_SERVER)
    return project


def test_over_http_a_recording_is_made_and_replayed(http_project: Project) -> None:
    http_project.run(OVER_HTTP_OSLO).assert_outcomes(passed=1)
    assert (http_project.asked, http_project.cities()) == (["tools/call"], ["Oslo"])
    for mode in ("once", "none"):
        http_project.run(OVER_HTTP_OSLO, f"--mcp-record={mode}").assert_outcomes(passed=1)
        assert http_project.asked == []


def test_over_http_a_miss_is_told_when_the_test_is_over(http_project: Project) -> None:
    http_project.has_recorded(OVER_HTTP_OSLO)
    result = http_project.run(OVER_HTTP_OSLO.replace('"Oslo")', '"Lima")'))
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["mcp_recording: 1 request not in *", "  tools/call *", "the messages: *http.jsonl"]
    )


def test_one_recording_serves_both_transports(http_project: Project) -> None:
    http_project.has_recorded(OSLO)
    http_project.run(OVER_HTTP_OSLO, "--mcp-record=none").assert_outcomes(passed=1)
    http_project.run(OVER_HTTP_OSLO, "--mcp-record=all").assert_outcomes(passed=1)
    http_project.run(OSLO, "--mcp-record=none").assert_outcomes(passed=1)
    assert http_project.asked == []


def test_over_http_a_second_test_does_not_replace_what_the_first_recorded(http_project: Project) -> None:
    mark = '@pytest.mark.mcp_recording("both.jsonl", url=URL)'
    oslo = OVER_HTTP_OSLO.replace("@pytest.mark.mcp_recording(url=URL)", mark)
    lima = f'\n{mark}\ndef test_lima(mcp_recording):\n    asks(mcp_recording, "Lima")\n'
    result = http_project.run(oslo + lima)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["*another test has recorded into it, over HTTP; name one recording for each*"]
    )
    http_project.run(oslo, "--mcp-record=none").assert_outcomes(passed=1)


def test_a_session_over_http_does_not_replace_that_on_stdio_of_the_same_test(http_project: Project) -> None:
    both = """
@pytest.mark.mcp_recording(url=URL)
def test_both(mcp_recording):
    with Client(mcp_recording.command) as client:
        client.forecast("Oslo")
    asks(mcp_recording, "Lima")
"""
    result = http_project.run(OVER_HTTP + both)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*has a session on stdio and one over HTTP; use command or url, not both*"])
    assert http_project.cities() == ["Oslo"]
    wider = both.replace('"Lima"', '"Oslo", "Lima"')
    http_project.run(OVER_HTTP + wider, "--mcp-record=all").assert_outcomes(passed=1)
    assert http_project.cities() == ["Oslo", "Lima"]


def test_over_http_new_passes_on_to_the_command(http_project: Project) -> None:
    http_project.has_recorded(OSLO)
    lima = OVER_HTTP_OSLO.replace("@pytest.mark.mcp_recording(url=URL)\n", "")
    lima = lima.replace('"Oslo")', '"Oslo", "Lima")')
    http_project.run(lima, "--mcp-record=new").assert_outcomes(passed=1)
    assert (http_project.asked, http_project.cities()) == (["tools/call"], ["Oslo", "Lima"])
    http_project.run(lima, "--mcp-record=none").assert_outcomes(passed=1)


def test_a_url_cannot_be_recorded_from_a_command(http_project: Project) -> None:
    result = http_project.run(OVER_HTTP_OSLO.replace("@pytest.mark.mcp_recording(url=URL)\n", ""))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*cannot be recorded: the mark gives no url of a server; *"])


# A real client


@pytest.fixture(scope="module")
def sdk_client(peers: Peers) -> list[str]:
    """Asked for before pytester takes the home folder away, where it is installed."""
    plan = [{"do": "list tools"}, {"do": "call", "tool": "forecast", "arguments": {"city": "Oslo"}}]
    return peers.client("python 1", json.dumps(plan))


def test_the_client_of_the_python_sdk(sdk_client: list[str], project: Project) -> None:
    tests = f"""
import subprocess
WEATHER[1] = {str(project.recordings.parent / "server.py")!r}

def test_sdk(mcp_recording, mcp_findings):
    command = [*{sdk_client!r}, "--", *mcp_recording.command]
    # The SDK gives a server no PYTHONPATH.
    ran = subprocess.run(command, cwd={str(ROOT)!r}, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert "Oslo: sunny" in ran.stdout
"""
    project.run(tests).assert_outcomes(passed=1)
    assert project.asked == ["tools/list", "tools/call"]
    project.run(tests, "--mcp-record=none").assert_outcomes(passed=1)
    assert project.asked == []


# Beside others


def test_the_plugin_is_announced() -> None:
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert hasattr(import_module(entry["mcpproxy"]), "pytest_addoption")


def test_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import pytest, sys; before = set(sys.modules); import mcpproxy.pytest_plugin\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["mcpproxy", "mcpproxy.pytest_plugin"]


def test_the_help_names_the_modes(project: Project) -> None:
    result = project.run("", "--help")
    result.stdout.fnmatch_lines(["*--mcp-record=*once,none,all,new*", "*mcp_recordings_dir*"])
    result = project.run("", "--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.mcp_recording(*", "@pytest.mark.mcp_findings(*"])


def test_the_example_of_the_documents(project: Project) -> None:
    code = documents.named("recorded server in pytest").text
    project.run(code).assert_outcomes(passed=1)
    project.run(code, "--mcp-record=none").assert_outcomes(passed=1)
    assert (project.asked, project.cities()) == ([], ["Oslo"])


def test_the_recording_is_a_trace_like_any_other(project: Project) -> None:
    project.has_recorded(OSLO)
    first, *_, last = (project.recordings / "weather.jsonl").read_text().splitlines()
    assert json.loads(first)["command"][-1] == "server.py"
    assert json.loads(last)["ending"] == "exited"
