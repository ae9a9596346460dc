"""Where recordings lie unless the user says otherwise, and what they are called.

The folder follows the convention of the platformdirs package. It is written out here because
importing that package takes longer (10 ms) than everything else the relay does before the server starts.
"""

from __future__ import annotations

import os
import sys
import time

_LAUNCHERS = frozenset(
    (
        "npx",
        "npm",
        "pnpm",
        "yarn",
        "bun",
        "bunx",
        "deno",
        "node",
        "uv",
        "uvx",
        "pipx",
        "python",
        "py",
        "ruby",
        "sh",
    )
)
_SCRIPT_LETTERS = {"node": "ep", "ruby": "e", "uv": "", "uvx": ""}
"""The letters of the options behind which a script stands; for the others it is ``c``."""

_TELLING = ("key", "token", "secret", "pass", "pwd", "auth", "cred", "jwt", "cookie", "sig")
"""Part of every name of a secret that an option may have."""

_SUBCOMMANDS = frozenset(("run", "dlx", "exec", "x", "tool"))
_SUFFIXES = (".exe", ".cmd", ".bat", ".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".jar")


def state_dir() -> str:
    """The folder for the recordings of this user. Not created here."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    else:
        base = os.environ.get("XDG_STATE_HOME", "")
        if not os.path.isabs(base):  # a relative one is to be ignored, says the base directory convention
            base = os.path.join(home, ".local", "state")
    return os.path.join(base, "mcpproxy")


def make_private(folder: str) -> None:
    """Make ``folder`` and what is missing above it, each for its owner alone.

    Raises:
        OSError: one of them cannot be made.
    """
    above = os.path.dirname(folder)
    if above and above != folder and not os.path.lexists(above):
        make_private(above)
    try:
        os.mkdir(folder or ".", 0o700)
    except FileExistsError:
        if not os.path.isdir(folder or "."):
            raise


def trace_name(label: str) -> str:
    """``<UTC time>-<label>-<pid>.jsonl``: names sort by the time of their start."""
    now_ms = time.time_ns() // 1_000_000
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_ms // 1000))
    return f"{stamp}.{now_ms % 1000:03d}Z-{label}-{os.getpid()}.jsonl"


def numbered(path: str, attempt: int) -> str:
    """``path`` for the first attempt, then ``name-2.jsonl``, ``name-3.jsonl`` and so on."""
    if attempt == 1:
        return path
    stem, suffix = os.path.splitext(path)
    return f"{stem}-{attempt}{suffix}"


def label_for(command: list[str]) -> str:
    """A short name for the server that ``command`` starts, safe in a file name.

    ``npx -y @scope/server-files@1.2 /srv`` is called ``server-files``, ``python -m weather`` is
    called ``weather``: what the launcher launches says more than the launcher. A script that stands in the
    command itself (``sh -c '...'``) is no name, and neither is what may be a secret.
    """
    name = command[0]
    launcher = _base(name).rstrip("0123456789.")
    if launcher in _LAUNCHERS:
        name = _launched(launcher, command[1:]) or name
    return safe(_base(name)) or "server"


def _launched(launcher: str, arguments: list[str]) -> str:
    """What ``launcher`` launches; empty if nothing tells its name."""
    option = ""
    for argument in arguments:
        if argument.startswith("-"):
            if _is_script(launcher, argument):
                return ""
            option = argument
            continue
        if (launcher, argument) == ("deno", "eval"):
            return ""
        if argument in _SUBCOMMANDS or "=" in argument or _takes_secret(option):
            option = ""
            continue
        # A header field or a text has spaces; what is started has none but in its folders.
        return "" if any(char.isspace() for char in _base(argument)) or "://" in argument else argument
    return ""


def _takes_secret(option: str) -> bool:
    """Whether what follows the option is a secret."""
    if not option.startswith("--") or "=" in option or not any(part in option.lower() for part in _TELLING):
        return False
    from mcpproxy.base.secret_names import names_secret  # few commands need it

    return names_secret(option)


def _is_script(launcher: str, option: str) -> bool:
    """Whether a script follows this option of the launcher, or is part of it."""
    name = option.partition("=")[0]
    if name.startswith("--"):
        return name in ("--eval", "--print", "--command", "--call")
    return any(letter in name for letter in _SCRIPT_LETTERS.get(launcher, "c"))


def safe(text: str) -> str:
    """``text`` with everything replaced that a file name should not hold; at most 40 characters."""
    kept = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in text)
    return kept.strip("-.")[:40]


def _base(path: str) -> str:
    """The last component, without a package version and a suffix that says only how it is run."""
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    head, _, _version = name[1:].partition("@")
    name = name[:1] + head
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name
