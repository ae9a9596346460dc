"""The default folder of recordings, the names of their files, and times as text.

The folder is the one that the platformdirs package would choose. That package is not used because importing
it takes longer (10 ms) than everything else the relay, the process that forwards the traffic, does before
the server starts.
"""

from __future__ import annotations

import os
import sys
import time

_LAUNCHERS: dict[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(("npx", "npm", "pnpm", "yarn", "bun", "bunx", "deno"), ("c", ())),
    **dict.fromkeys(("node", "tsx", "ts-node"), ("ep", ())),
    **dict.fromkeys(("uv", "uvx"), ("", ("--from", "--with", "--python"))),
    **dict.fromkeys(("python", "py", "sh", "bash", "cmd"), ("c", ())),
    **dict.fromkeys(("poetry", "pdm", "rye", "hatch", "pixi", "nohup", "mcp-remote"), ("", ())),
    **dict.fromkeys(("conda", "mamba", "micromamba"), ("", ("-n", "--name", "-p", "--prefix", "--cwd"))),
    **dict.fromkeys(("docker", "podman"), ("", ())),
    "pipx": ("", ("--spec", "--python", "--index-url", "-i", "--pip-args")),
    "ruby": ("e", ()),
    "env": ("", ("-u", "--unset", "-C", "--chdir")),
    **dict.fromkeys(("mcp", "fastmcp"), ("", ("--with", "--with-editable", "-e", "--env-file", "-f", "-t"))),
    "sudo": ("", ("-u", "--user", "-g", "--group")),
    "wsl": ("", ("-d", "--distribution", "-u", "--user", "--cd")),
}
"""Per launcher: the letters of options that are followed by code (``node -e '...'``), and the options whose
value is not the name of a program."""
_REMOTES = ("mcp-remote",)
"""Launchers that connect to a URL instead of starting a program. The URL names the server. Their other
arguments may be header fields with secrets."""
_SDKS = ("mcp", "fastmcp")
"""Launchers that start a server from a file and may name an object in the file: ``run weather.py:app``."""
_CONTAINERS = ("docker", "podman")
_CONTAINER_FLAGS = ("--rm", "--init", "--interactive", "--tty", "--detach", "--privileged", "--read-only")
_CONTAINER_LETTERS = "itdqP"
"""Of launchers that start an image (``_CONTAINERS``): the letters of the options without a value. The long
ones are in ``_CONTAINER_FLAGS``. All other options have a value."""

_SECRET_PARTS = (
    "key",
    "token",
    "secret",
    "pass",
    "pwd",
    "pw",
    "auth",
    "cred",
    "jwt",
    "cookie",
    "sig",
    "sess",
    "dpop",
    "bearer",
    "pat",
)
"""Every name that ``names_option`` accepts contains one of these parts. They are looked for first, because
the exact test needs an import."""

PROBES = ("validate", "fuzz")
"""The commands whose sessions are recorded in a folder of their own within the state folder."""

_SUBCOMMANDS = frozenset(("run", "dlx", "exec", "x", "tool", "/c", "/C", "/d", "/s"))
"""Words of launchers before the program that is launched; those with a slash are options of ``cmd``."""
ANY_SCRIPT = frozenset(
    (
        *("server", "main", "index", "app", "start", "run", "dev", "serve", "cli"),
        *("mcp", "mcp-server", "mcp_server", "__main__"),
    )
)
"""Usual names of a file or script, which do not identify the server that it starts."""
_SCRIPT_RUNNERS = ("npm", "pnpm", "yarn", "bun")
"""Launchers that run a script of the package in the working directory: ``npm start``, ``pnpm run dev``."""
_BUILD_FOLDERS = ("dist", "build", "out", "lib", "src", "bin", "Scripts", "venv", ".venv", "local", "usr")
"""Names of folders that do not identify the package of a file in them."""

_SUFFIXES = (".exe", ".cmd", ".bat", ".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".jar")
"""Suffixes of file types, which are left out of the name of a program."""


def state_dir() -> str:
    """Return the folder for the recordings of this user. It is not created here."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    else:
        base = os.environ.get("XDG_STATE_HOME", "")
        if not os.path.isabs(base):  # the XDG specification says to ignore a relative path
            base = os.path.join(home, ".local", "state")
    return os.path.join(base, "mcpproxy")


def probe_folder(kind: str) -> str:
    """Return the folder for the recordings of ``mcpproxy KIND``; ``kind`` is one of ``PROBES``."""
    return os.path.join(state_dir(), kind)


def without_probes(where: str, names: list[str]) -> list[str]:
    """Return the folder names ``names`` in ``where``; if ``where`` is the state folder, without ``PROBES``.

    Probes are sessions of mcpproxy's own client, some twenty for each run of ``validate``. They do not count
    among "all recordings" and are never "the latest", unless the user names their folder.
    """
    others = [name for name in names if name not in PROBES]
    is_elsewhere = len(others) == len(names) or os.path.realpath(where) != os.path.realpath(state_dir())
    return names if is_elsewhere else others


def working_directory() -> str:
    """Return the working directory; empty if it has been deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def inside(path: str, folder: str) -> str:
    """Return an absolute ``path`` inside ``folder`` relative to ``folder``, and any other path unchanged."""
    if not folder or not os.path.isabs(path):
        return path
    try:
        relative = os.path.relpath(path, folder)
    except ValueError:  # on another drive
        return path
    return path if relative.split(os.sep)[0] == os.pardir else relative


def make_private(folder: str) -> None:
    """Make ``folder`` and its missing parents, accessible to their owner only. One that exists is kept as is.

    Raises:
        OSError: a folder cannot be made, or something else has its name.
    """
    parent = os.path.dirname(folder)
    if parent and parent != folder and not os.path.lexists(parent):
        make_private(parent)
    try:
        os.mkdir(folder or ".", 0o700)
    except FileExistsError:
        if not os.path.isdir(folder or "."):
            raise


def trace_name(label: str) -> str:
    """Return ``<UTC time>-<label>-<pid>.jsonl``, so that names sort by start time."""
    stamp = rfc3339(3).replace("-", "").replace(":", "")
    return f"{stamp}-{label}-{os.getpid()}.jsonl"


def rfc3339(digits: int = 6, *, unix_ns: int | None = None) -> str:
    """Return a time in nanoseconds since 1970 as ``2026-11-29T20:08:22.123456Z``; ``None`` means now.

    There are ``digits`` digits after the point, and no point if that is 0.
    """
    second, ns = divmod(time.time_ns() if unix_ns is None else unix_ns, 1_000_000_000)
    fraction = f".{ns:09d}"[: digits + 1] if digits else ""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(second))}{fraction}Z"


def split_label(named: str) -> tuple[str, int]:
    """Return ``(LABEL, N)`` for ``LABEL~N``, the N-th recording before the latest with this label.

    Return ``(named, 0)`` for any other name, also if ``N`` has more than nine digits.
    """
    label, _, back = named.rpartition("~")
    is_split = label and back.isascii() and back.isdecimal() and len(back) < 10
    return (label, int(back)) if is_split else (named, 0)


def numbered(path: str, attempt: int) -> str:
    """Return ``path`` for the first attempt, then ``name-2.jsonl``, ``name-3.jsonl`` and so on."""
    if attempt == 1:
        return path
    stem, suffix = os.path.splitext(path)
    return f"{stem}-{attempt}{suffix}"


def free(path: str, taken: frozenset[str] | set[str] = frozenset()) -> str:
    """Return the first of the ``numbered`` paths that is not in ``taken`` and does not exist."""
    attempt = 1
    while (candidate := numbered(path, attempt)) in taken or os.path.lexists(candidate):
        attempt += 1
    return candidate


def label_for(command: list[str], folder: str = "") -> str:
    """Return a short name for the server that ``command`` starts, safe in a file name.

    The name is that of the launched program, not of its launcher: ``server-files`` for
    ``npx -y @scope/server-files@1.2 /srv``, and ``weather`` for ``python -m weather``. The launched program
    may be a launcher itself, as in ``cmd /c npx weather``. The URL after ``mcp-remote`` gives the name of its
    host. A file with a usual name gives the name of its package: ``server-files`` for
    ``node /opt/server-files/dist/index.js``. ``npm start`` gives the name of ``folder``, the working
    directory, if it is given. Code in the command (``sh -c '...'``) and anything that may be a secret are
    never used as a name. If nothing is left for a name, it is ``server``.
    """
    program = _program(command)
    if folder and program in ANY_SCRIPT and _last_component(command[0]) in _SCRIPT_RUNNERS:
        program = f"{folder}/{program}"
    return safe(_program_name(program)) or "server"


def _program(command: list[str]) -> str:
    """Return the program that a known launcher starts, or else the first word of the command."""
    launcher = _last_component(command[0]).rstrip("0123456789.")
    return (launcher in _LAUNCHERS and _launched(launcher, command[1:])) or command[0]


def _launched(launcher: str, arguments: list[str]) -> str:
    """Return the program or package that ``launcher`` starts, or the host to which it connects.

    The result is empty if ``arguments`` name none, or if code, text or a URL comes first.
    """
    if launcher in _REMOTES:
        return next((host for argument in arguments if (host := _host(argument))), "")
    option = ""
    for place, argument in enumerate(arguments):
        if argument.startswith("-"):
            if _is_inline_code(launcher, argument):
                return ""
            option = argument
            continue
        if (launcher, argument) == ("deno", "eval"):
            return ""
        if launcher in _SDKS:
            if argument == "dev":
                continue
            argument = argument.replace(".py:", ".py/").rpartition(".py/")[0] or argument
        if argument in _SUBCOMMANDS or "=" in argument or _takes_value(launcher, option):
            option = ""
            continue
        # An argument with spaces in its last component is text or a header field, not a program.
        if any(char.isspace() for char in _last_component(argument)) or "://" in argument:
            return ""
        if launcher in _CONTAINERS:
            folder, slash, image = argument.rpartition("/")
            argument = folder + slash + image.partition(":")[0]
        return _program([argument, *arguments[place + 1 :]])
    return ""


def _host(url: str) -> str:
    """Return the host of an HTTP URL, without user information and port; empty for any other text."""
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0].partition("?")[0].partition("#")[0]
    return authority.rpartition("@")[2].partition(":")[0] if scheme in ("http", "https") else ""


def _takes_value(launcher: str, option: str) -> bool:
    """Whether the argument after the option is the option's value, not a program."""
    if launcher in _CONTAINERS and option and "=" not in option:
        is_letters = not option.startswith("--") and not option.strip("-" + _CONTAINER_LETTERS)
        return option not in _CONTAINER_FLAGS and not is_letters
    return option in _LAUNCHERS[launcher][1] or _takes_secret(option)


def _takes_secret(option: str) -> bool:
    """Whether the argument after ``option`` is a secret; false for a short option, and for one with ``=``."""
    if (
        not option.startswith("--")
        or "=" in option
        or not any(part in option.lower() for part in _SECRET_PARTS)
    ):
        return False
    from mcpproxy.base.secret_names import names_option  # imported late, because few commands need it

    return names_option(option.removeprefix("--"))


def _is_inline_code(launcher: str, option: str) -> bool:
    """Whether this option of the launcher contains code, or is followed by code."""
    name = option.partition("=")[0]
    if name.startswith("--"):
        return name in ("--eval", "--print", "--command", "--call")
    return any(letter in name for letter in _LAUNCHERS[launcher][0])


def safe(text: str) -> str:
    """Return at most 40 characters of ``text``, with ``-`` for each that is unsafe in a file name.

    Dots and hyphens at the ends of the whole text are left out first.
    """
    cleaned = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in text)
    return cleaned.strip("-.")[:40]


def _program_name(path: str) -> str:
    """Return the name of the program at ``path``, or of its package if the name is one of ``ANY_SCRIPT``."""
    name = _last_component(path)
    if name in ANY_SCRIPT:
        for folder in reversed(path.replace("\\", "/").split("/")[:-1]):
            if folder not in _BUILD_FOLDERS and safe(folder) and not folder.endswith(":"):
                return name if folder in ANY_SCRIPT else folder
    return name


def _last_component(path: str) -> str:
    """Return the last component of ``path``, without package version and file type suffix."""
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    head, _, _version = name[1:].partition("@")  # an @ at the very start begins the scope of a package
    name = name[:1] + head
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name
