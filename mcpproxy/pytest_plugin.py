"""The pytest plugin: MCP recordings as fixtures, in the style of VCR.

    @pytest.mark.mcp_recording("weather", command=["python", "weather.py"])
    def test_forecast(mcp_recording, mcp_findings):
        with Client(mcp_recording.command) as client:
            assert client.call_tool("forecast", {"city": "Oslo"})

The first run records the server; later runs replay it. pytest loads this module in every run, so nothing
else of mcpproxy is imported before a test requests a fixture or has a mark ``mcp_faults``.
"""

import os
import re
import shlex
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpproxy.testing import McpFindings, McpRecording, Mode
    from mcpproxy.testing.mcp_model import McpModel

MODES: Final = ("once", "none", "all", "new")
LEVELS: Final = ("error", "warning", "info")
"""The values of ``--mcp-record``, and of the setting ``mcp_findings_level``."""

_WRITTEN_PATHS: Final = pytest.StashKey[set[Path]]()
"""The recordings written by this run. A second test that names the same recording adds to it."""
_RECORDING: Final = pytest.StashKey["McpRecording"]()
_MODELS: Final = pytest.StashKey["list[McpModel]"]()
_FINDINGS: Final = pytest.StashKey["McpFindings"]()
_IS_JUDGED: Final = pytest.StashKey[bool]()
"""The recording, the models and the findings of a test, and whether the recording was judged."""
_HEADLINE: Final = pytest.StashKey[str]()
"""The text of the line FAILED for a test whose recording lacks a request or whose faults are invalid."""
_NOTE: Final = pytest.StashKey[str]()
"""The note on the exception of a failed test: what is wrong with its models and with its recording."""
_UNSAFE_IN_FILE_NAMES: Final = re.compile(r"[^\w.\[\]=,+-]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--mcp-record``, and the settings of the ini file."""
    group = parser.getgroup("mcpproxy", "MCP recordings")
    group.addoption(
        "--mcp-record",
        choices=MODES,
        default="once",
        help="once: record what has no recording (default); none: only replay; all: record everything "
        "again; new: replay, and record what is missing",
    )
    parser.addini(
        "mcp_recordings_dir", "folder of recordings, relative to the test's file", default="recordings"
    )
    parser.addini(
        "mcp_findings_level", f"mildest finding that fails a test: {', '.join(LEVELS)}", default="error"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks ``mcp_recording``, ``mcp_findings`` and ``mcp_faults``."""
    config.stash[_WRITTEN_PATHS] = set()
    for line in (
        "mcp_recording(name=None, *, command=None, url=None): the recording of this test, and the server to "
        "record: its command, or its URL",
        "mcp_findings(level=None, *, select=None, ignore=None, rules=None, hosts=None): which findings fail "
        "this test, and in which hosts its server has to work",
        "mcp_faults(*faults, seed=0): fault rules for the session: files, ready-made sets, or lines",
    ):
        config.addinivalue_line("markers", line)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse invalid fault rules before the first test runs.

    Raises:
        UsageError: a fault rule of a mark ``mcp_faults`` is invalid; the error names the first test with it.
    """
    seen: set[str] = set()
    for item in items:
        faults = [str(fault) for mark in item.iter_markers("mcp_faults") for fault in mark.args]
        if faults and not seen.issuperset(faults):
            from mcpproxy.errors import McpProxyError
            from mcpproxy.testing import check_faults

            try:
                check_faults(faults)
            except McpProxyError as error:
                raise pytest.UsageError(f"{item.nodeid}: mcp_faults: {error}") from None
            seen.update(faults)


@pytest.fixture
def mcp_faults(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return the fault rules of the test: the fixture's parameter (one or a list), or those of its marks."""
    from mcpproxy.errors import McpProxyError
    from mcpproxy.testing import check_faults

    node = cast("pytest.Item", request.node)
    parameter: object = getattr(request, "param", None)
    if parameter is None:
        return tuple(str(fault) for mark in node.iter_markers("mcp_faults") for fault in mark.args)
    faults = (parameter,) if isinstance(parameter, str) else tuple(cast("list[str]", parameter))
    try:
        check_faults(faults)
    except McpProxyError as error:
        node.stash[_HEADLINE] = str(error)
        _fail(f"mcp_faults: {error}")
    return faults


@pytest.fixture
def mcp_recording(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    mcp_faults: tuple[str, ...],
) -> "Generator[McpRecording]":
    """Yield a recording that replaces a server. ``.command`` and ``.url`` work with any client."""
    from mcpproxy.errors import McpProxyError
    from mcpproxy.testing import McpRecording, action_for

    node = cast("pytest.Item", request.node)
    arguments = _mark_arguments(node, "mcp_recording", ("name",), ("command", "url"))
    path = _recording_path(node, arguments.get("name"))
    mode = cast("Mode", request.config.getoption("--mcp-record"))
    written_paths = request.config.stash[_WRITTEN_PATHS]
    # In mode ``once``, a recording that an earlier test of this run has written is extended, not replayed.
    exists = path.exists() and not (mode == "once" and path in written_paths)
    command_or_text: str | list[str | os.PathLike[str]] = arguments.get("command") or []
    command = (
        shlex.split(command_or_text)
        if isinstance(command_or_text, str)
        else [os.fspath(part) for part in command_or_text]
    )
    try:
        recording = McpRecording(
            path,
            action_for(mode, exists),
            tmp_path_factory.mktemp("mcp"),
            command,
            arguments.get("url") or "",
            adds=path in written_paths,
            faults=mcp_faults,
            fault_seed=_fault_seed_of(node),
        )
    except McpProxyError as error:
        _fail(f"mcp_recording: {error}")
    node.stash[_RECORDING] = recording
    yield recording
    if recording.action != "replay" and not mcp_faults:
        written_paths.add(path)
    if trouble := _judge_once(node, recording):
        _fail(trouble)


@pytest.fixture
def mcp_findings(request: pytest.FixtureRequest, mcp_recording: "McpRecording") -> "McpFindings":
    """Return the findings of the test; those at the level that counts, or above, fail it at its end."""
    from mcpproxy.errors import McpProxyError
    from mcpproxy.testing import McpFindings

    node = cast("pytest.Item", request.node)
    arguments = _mark_arguments(node, "mcp_findings", ("level",), ("select", "ignore", "rules", "hosts"))
    arguments["level"] = arguments.get("level") or request.config.getini("mcp_findings_level")
    try:
        findings = node.stash[_FINDINGS] = McpFindings(mcp_recording, **arguments)
    except McpProxyError as error:
        _fail(str(error))
    return findings


@pytest.fixture
def mcp_model(request: pytest.FixtureRequest) -> "Generator[Callable[[Any], McpModel]]":
    """Yield a function that starts a scripted model for a real host.

    ``mcp_model([{"call": "forecast"}, {"say": "done"}])`` returns the model. The script may also be a file,
    relative to the folder of the test's file. The test fails if a turn of the script does not run, or if a
    call returns something that the script does not expect.
    """
    from mcpproxy.errors import McpProxyError
    from mcpproxy.testing.mcp_model import McpModel

    node = cast("pytest.Item", request.node)
    models = node.stash[_MODELS] = []

    def start(script: Any) -> McpModel:
        try:
            model = McpModel(node.path.parent / script if isinstance(script, str | Path) else script)
        except McpProxyError as error:
            _fail(f"mcp_model: {error}")
        models.append(model)
        return model

    yield start
    for model in models:
        model.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Judge the models and the recording right after the test.

    A recording with a session that has not ended by then is judged at the end of its fixture.
    """
    try:
        result = yield
    except (Exception, pytest.fail.Exception) as error:
        if trouble := _trouble_after(item):
            # pytest prints a note directly below the message, also above the parts of a group.
            item.stash[_NOTE] = _visible(trouble)
            error.add_note(item.stash[_NOTE])
        raise
    if trouble := _trouble_after(item):
        _fail(trouble)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name the missing request in the line FAILED, whatever exception the client raised because of it.

    Without such a request or another headline, only our note is taken out of the line.
    """
    report = yield
    # Only the representation of an exception has the text of this line; pytest has no public name for it.
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        note = item.stash.get(_NOTE, "")
        crash.message = item.stash.get(_HEADLINE, "") or crash.message.removesuffix(f"\n{note}")
    return report


def _fault_seed_of(node: pytest.Item) -> int:
    """Return the seed that the nearest mark ``mcp_faults`` names; 0 without one.

    Fail the test if its seed is no whole number, or if that mark, or a nearer one, has another keyword
    argument.
    """
    for marker in node.iter_markers("mcp_faults"):
        if unknown := marker.kwargs.keys() - {"seed"}:
            _fail(f"@pytest.mark.mcp_faults has no {', '.join(unknown)}=; it takes seed=")
        if "seed" in marker.kwargs:
            seed: object = marker.kwargs["seed"]
            if not isinstance(seed, int):
                _fail(f"@pytest.mark.mcp_faults has seed={seed!r}; write a whole number")
            return int(seed)
    return 0


def _trouble_after(item: pytest.Item) -> str:
    """Return the problems of a test's models, and of its recording if that is over; empty for none."""
    problems = [model.trouble() for model in item.stash.get(_MODELS, None) or ()]
    recording = item.stash.get(_RECORDING, None)
    if recording is not None and recording.is_over():
        problems.append(_judge_once(item, recording))
    return "\n\n".join(filter(None, problems))


def _judge_once(item: pytest.Item, recording: "McpRecording") -> str:
    """Judge the recording once and return its problems as one text; empty for none, and in later calls."""
    from mcpproxy.errors import McpProxyError

    if item.stash.get(_IS_JUDGED, False):
        return ""
    item.stash[_IS_JUDGED] = True
    findings = item.stash.get(_FINDINGS, None)
    try:
        recording.finish()
        trouble = [recording.trouble(), findings.trouble() if findings else ""]
        item.stash[_HEADLINE] = recording.headline()
    except McpProxyError as error:
        return f"mcp_recording: {error}"
    return "\n\n".join(filter(None, trouble))


def _recording_path(node: pytest.Item, name: str | None) -> Path:
    """Return the path of a test's recording; its default name is the test's module and the rest of its id."""
    if not name:
        test_name = node.nodeid.partition("::")[2].replace("::", ".")
        name = f"{node.path.stem}/{_UNSAFE_IN_FILE_NAMES.sub('-', test_name)}"
    folder = node.path.parent / node.config.getini("mcp_recordings_dir")
    return folder / (name if name.endswith(".jsonl") else f"{name}.jsonl")


def _mark_arguments(
    node: pytest.Item, mark: str, positional: tuple[str, ...], named: tuple[str, ...]
) -> dict[str, Any]:
    """Return the arguments of a mark; a mark on the test overrides the marks on its class and module.

    Fail the test if a mark has other arguments than ``positional`` and ``named``.
    """
    arguments: dict[str, Any] = {}
    for marker in node.iter_markers(mark):
        of_marker: dict[str, Any] = {**dict(zip(positional, marker.args, strict=False)), **marker.kwargs}
        if len(marker.args) > len(positional) or of_marker.keys() - {*positional, *named}:
            _fail(f"@pytest.mark.{mark} takes {', '.join(f'{name}=' for name in (*positional, *named))}")
        arguments = of_marker | arguments
    return arguments


def _fail(text: str) -> NoReturn:
    raise pytest.fail.Exception(_visible(text), pytrace=False) from None


def _visible(text: str) -> str:
    from mcpproxy.base.visible import visible_lines

    return visible_lines(text)
