"""Addons of installed packages: a wheel with entry points, installed by pip into its own environment."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Final

import pytest

from tests.intercept.test_addons import given
from tests.intercept.test_fault_relay import INITIALIZED, Played, call
from tests.relay.hosts import DEADLINE_S, HOME

WHEEL: Final = {
    "house_addons.py": """
from mcpproxy.addons import Addon

class Loud(Addon):
    def response(self, session, request, message):
        return message.set("/result/about", request.method)

def helper():
    return None
""",
    "house_addons-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: house-addons\nVersion: 1.0\n",
    "house_addons-1.0.dist-info/WHEEL": (
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    ),
    "house_addons-1.0.dist-info/entry_points.txt": (
        "[mcpproxy.addons]\nloud = house_addons:Loud\nhelper = house_addons:helper\n"
        "gone = house_addons:Gone\n"
    ),
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has this mcpproxy, and a package with addons."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", with_pip=False, symlinks=True)
    python = folder / "env" / "bin" / "python"
    packages = next((folder / "env" / "lib").glob("python*/site-packages"))
    packages.joinpath("ours.pth").write_text(
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n", encoding="utf-8"
    )
    wheel = folder / "house_addons-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for name, content in WHEEL.items():
            file.writestr(name, content)
        file.writestr("house_addons-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in WHEEL))
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps"]
    done = subprocess.run([*install, str(wheel)], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    return os.fspath(python)


def test_an_installed_addon_is_called_by_its_name(tmp_path: Path, python: str) -> None:
    messages = [INITIALIZED, call(1, name="search", arguments={})]
    played = Played(tmp_path, "--addon", "loud", messages=messages, python=python)
    assert [message["result"]["about"] for message in given(played)] == ["tools/call"]
    marks = [json.loads(frame.raw)["id"] for frame in played.frames() if frame.fault and frame.by_proxy]
    assert marks == [0, 1]


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        (
            "loudly",
            "loudly: no such addon; name a file (ADDON.py), or one that is installed (gone, helper, loud)",
        ),
        ("helper", "helper: house_addons:helper is no addon; derive it from mcpproxy.addons.Addon"),
        ("gone", "gone: AttributeError: module 'house_addons' has no attribute 'Gone'; correct it"),
    ],
)
def test_what_is_no_addon_is_refused(tmp_path: Path, python: str, name: str, fact: str) -> None:
    started = tmp_path / "started"
    command = [python, "-m", "mcpproxy", "--trace-dir", str(tmp_path), "--addon", name, "--", "touch"]
    done = subprocess.run(
        [*command, str(started)], capture_output=True, text=True, env=HOME, timeout=DEADLINE_S
    )
    assert done.returncode == 2
    assert done.stderr == f"mcpproxy: run: --addon: {fact}\n"
    assert not started.exists()
