"""The table of hosts in ``hosts.toml``, and the paths of their files on this machine."""

import glob
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import tomli

from mcpproxy.hosts.wrapping import CommandShape

# ``{NAME}`` or ``{NAME|default}``; the default may contain one more placeholder without a default.
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]+)(?:\|([^{}]*(?:\{[a-z]+\}[^{}]*)?))?\}")
_VERSION_CONTROL: Final = (".git", ".hg", ".jj", ".svn")


@dataclass(frozen=True, slots=True)
class ServerFile:
    """A file in which a host names servers. ``key`` leads to them in the file; ``*`` in it is any key.

    ``leave`` says why the entries of the file are only listed and not wrapped. ``readers`` names other hosts
    that read the file. README.md describes the other members.
    """

    scope: str
    path: str
    key: tuple[str, ...]
    single: str = ""
    """If the file names only one server: the key of its entry, below ``key``; otherwise empty."""
    lock: str = ""
    leave: str = ""
    label: str = ""
    readers: str = ""
    strict: bool = False
    """Whether the host is known to read strict JSON, and to ignore a file with a comment, a trailing comma or
    a byte order mark."""
    is_acp: bool = False
    """Whether the entries are agents, not servers: the member ``acp`` of a row."""


@dataclass(frozen=True, slots=True)
class ModelSetting:
    """The setting in which a host stores the address of its model. README.md describes the members.

    If there are no ``paths``, or the file has no place for the address, the user is shown ``lines`` to add by
    hand.
    """

    paths: tuple[str, ...]
    """The user's files that may have the setting, as in ``ServerFile.path``; the first that exists counts."""
    key: tuple[str, ...]
    """The keys that lead to the address; ``*`` is the provider."""
    provider: tuple[str, ...]
    """The keys that lead to the name of the chosen provider, which may be followed by ``/`` and a model."""
    variable: str
    """An environment variable whose value is used if the file has no address; empty if there is none."""
    services: tuple[tuple[str, str], ...]
    """Provider, or ``*``, -> the address that the host uses by default."""
    lines: tuple[str, ...]
    """Lines for the user; ``{base}`` is the address of ``mcpproxy model``."""
    note: str


@dataclass(frozen=True, slots=True)
class Host:
    """A program that starts servers: a row of ``hosts.toml``, which README.md describes."""

    id: str
    name: str
    shapes: tuple[CommandShape, ...]
    restart: str
    approval: str
    """The approval that the host asks the user for after its file has changed.

    ``approval_scopes`` says for which files it asks.
    """
    approval_scopes: tuple[str, ...]
    note: str
    obstacles: tuple[tuple[str, str], ...]
    """Member of an entry -> why such an entry is left alone."""
    cautions: tuple[tuple[str, str], ...]
    """Member of an entry -> a caution for the user before such an entry is wrapped."""
    variables: tuple[str, ...]
    files: tuple[ServerFile, ...]
    entry: tuple[tuple[str, object], ...] = ()
    """Members that an entry needs besides its command."""
    skills: str = ""
    """The folder of the user's skills, as in ``ServerFile.path``; empty if it is unknown."""
    model: ModelSetting | None = None
    reserved: tuple[str, ...] = ()
    """Names of servers that the host does not accept."""
    from_desktop: bool = False
    """Whether the host is started from the desktop and uses the ``PATH`` that it gets there."""


@cache
def all_hosts() -> tuple[Host, ...]:
    """Return every host of the table, with its files on this system."""
    with open(os.path.join(os.path.dirname(__file__), "hosts.toml"), "rb") as file:
        table = tomli.load(file)
    shapes = {name: _shape_of_row(row) for name, row in table["shapes"].items()}
    return tuple(_host_of_row(row, shapes) for row in table["host"])


def other_host(key: Sequence[str]) -> Host:
    """Return a host for a file that the user names, or whose host is unknown.

    It has the command shapes of all hosts. Its servers are under ``key``, or if that is empty, under the keys
    that known hosts use, except those with ``*`` or for a single server.
    """
    keys = [tuple(key)] if key else _usual_keys()
    rows = tuple(ServerFile("file", "", path) for path in keys)
    return Host("other", "another host", _all_shapes(), "restart the host", "", (), "", (), (), (), rows)


def paths_of(server_file: ServerFile, project: str) -> Iterator[tuple[str, str]]:
    """Yield each existing path of a file, with the folder it belongs to: the home folder or a project folder.

    Project files are searched in ``project`` and in the folders above it, up to the root of the repository.
    Without version control, they are searched only in ``project``.
    """
    home = os.path.expanduser("~")
    if server_file.scope != "project":
        yield from ((path, home) for path in _existing_paths(server_file, ""))
        return
    for folder in _project_folders(project):
        yield from ((path, folder) for path in _existing_paths(server_file, folder))


def path_to_show(server_file: ServerFile) -> str:
    """Return the path of a file on this machine, as text for the user.

    It is the row's pattern with its placeholders filled in, and may still have a ``*``. It is empty if the
    pattern is only an environment variable that is not set.
    """
    return _filled_pattern(server_file.path, str)


def skills_folder(host: Host) -> str:
    """Return the folder in which a host looks for the user's skills; empty if it is unknown."""
    return _filled_pattern(host.skills, str)


def model_files(setting: ModelSetting) -> list[str]:
    """Return the paths of the user's files on this machine that may have the address of the model."""
    return [_filled_pattern(path, str) for path in setting.paths]


def is_under_version_control(path: str) -> bool:
    """Whether a file is in a folder under version control."""
    folder = os.path.dirname(os.path.abspath(path))
    while True:
        if any(os.path.lexists(os.path.join(folder, name)) for name in _VERSION_CONTROL):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above


def _project_folders(project: str) -> list[str]:
    folders = [project]
    while not any(os.path.lexists(os.path.join(folders[-1], name)) for name in _VERSION_CONTROL):
        above = os.path.dirname(folders[-1])
        if above == folders[-1]:
            return [project]
        folders.append(above)
    return folders


def _existing_paths(server_file: ServerFile, folder: str) -> list[str]:
    path = _filled_pattern(server_file.path, glob.escape)
    if folder and path:
        path = os.path.join(glob.escape(folder), path)
    return sorted(glob.glob(path, include_hidden=True))


def _filled_pattern(pattern: str, escaped: Callable[[str], str]) -> str:
    """Return ``pattern`` with its placeholders ``{app}``, ``{NAME|default}`` and ``~`` replaced.

    ``{app}`` and the like are folders of the system, ``{NAME}`` is an environment variable. ``escaped`` is
    applied to each replacement. The path is empty if ``pattern`` is only a variable that is not set.
    """
    home = os.path.expanduser("~")
    folders = _system_folders(home)

    def replacement(placeholder: re.Match[str]) -> str:
        name, default = placeholder[1], placeholder[2]
        if name in folders:
            return escaped(folders[name])
        value = os.environ.get(name, "")
        return escaped(value) if value else _PLACEHOLDER.sub(replacement, default or "")

    path = _PLACEHOLDER.sub(replacement, pattern)
    if path.startswith("~"):
        path = escaped(home) + path[1:]
    return os.path.normpath(path) if path else ""


def _system_folders(home: str) -> Mapping[str, str]:
    """Return the folders that ``{app}``, ``{config}``, ``{appdata}`` and ``{local}`` mean on this system."""
    roaming = os.environ.get("APPDATA") or os.path.join(home, "AppData", "Roaming")
    local = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    config = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(config):
        config = os.path.join(home, ".config")
    match _system():
        case "windows":
            app = roaming
        case "mac":
            app = os.path.join(home, "Library", "Application Support")
        case _:
            app = config
    return {"app": app, "config": config, "appdata": roaming, "local": local}


def _system() -> str:
    return {"win32": "windows", "darwin": "mac"}.get(sys.platform, "linux")


def _host_of_row(row: Mapping[str, Any], shapes: Mapping[str, CommandShape]) -> Host:
    return Host(
        id=row["id"],
        name=row["name"],
        shapes=tuple(shapes[name] for name in row.get("shapes", ("plain",))),
        restart=row["restart"],
        approval=row.get("approval", ""),
        approval_scopes=tuple(row.get("approval_scopes", ("user", "project"))),
        note=row.get("note", ""),
        obstacles=tuple(row.get("obstacles", {}).items()),
        cautions=tuple(row.get("cautions", {}).items()),
        variables=tuple(row.get("variables", ())),
        files=tuple(
            _file_of_row(file_row)
            for file_row in row["file"]
            if _system() in file_row.get("system", _system()).split()
        ),
        entry=tuple(row.get("entry", {}).items()),
        skills=row.get("skills", ""),
        model=_model_of_row(row["model"]) if "model" in row else None,
        reserved=tuple(row.get("reserved", ())),
        from_desktop=row.get("from_desktop", False),
    )


def _file_of_row(row: Mapping[str, Any]) -> ServerFile:
    is_windows = _system() == "windows"
    return ServerFile(
        scope=row["scope"],
        path=row.get("windows", row["path"]) if is_windows else row["path"],
        key=tuple(row["key"]),
        single=row.get("single", ""),
        lock=row.get("lock", ""),
        leave=row.get("leave", ""),
        label=row.get("label", ""),
        readers=row.get("readers", ""),
        strict=row.get("strict", False),
        is_acp=row.get("acp", False),
    )


def _model_of_row(row: Mapping[str, Any]) -> ModelSetting:
    return ModelSetting(
        paths=tuple(row.get("paths", ())),
        key=tuple(row.get("key", ())),
        provider=tuple(row.get("provider", ())),
        variable=row.get("variable", ""),
        services=tuple(row.get("services", {}).items()),
        lines=tuple(row["lines"]),
        note=row.get("note", ""),
    )


def _shape_of_row(row: Mapping[str, Any]) -> CommandShape:
    return CommandShape(tuple(row["command"]), tuple(row["args"]) if "args" in row else None)


@cache
def _all_shapes() -> tuple[CommandShape, ...]:
    shapes = (shape for host in all_hosts() for shape in host.shapes)
    return tuple(dict.fromkeys(shapes))


@cache
def _usual_keys() -> list[tuple[str, ...]]:
    keys = (row.key for host in all_hosts() for row in host.files if "*" not in row.key and not row.single)
    return list(dict.fromkeys(keys))
