"""The recipes as data, and what a container of one becomes here: a process with folders for its volumes."""

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

import mcpproxy
from tests.peers.processes import Process

FOLDER: Final = Path(mcpproxy.__file__).parent / "send" / "fleet" / "recipes"
KUBERNETES: Final = FOLDER / "kubernetes"
COMPOSE: Final = FOLDER / "compose" / "compose.yaml"

_IMAGE_VARIABLES: Final = {"XDG_STATE_HOME": "/var/lib/mcpproxy", "HOME": "/nonexistent"}
"""What the image of mcpproxy sets."""

_VARIABLE: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_ADDRESS: Final = re.compile(r"(?<![\w.-])(?:[a-z][a-z-]*|0\.0\.0\.0|127\.0\.0\.1):(\d+)(?!\d)")

_READ_ONLY: Final = """
mount --make-rprivate /
for folder in {volumes}; do mount --bind "$folder" "$folder"; done
mount -o remount,bind,ro /
exec "$@"
"""

Object = dict[str, Any]


def documents(path: Path) -> list[Object]:
    """Return the documents of a YAML file."""
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def manifest(kind: str, name: str) -> Object:
    """Return a manifest of Kubernetes."""
    every = [each for path in KUBERNETES.glob("*.yaml") for each in documents(path)]
    (found,) = [each for each in every if each.get("kind") == kind and each["metadata"]["name"] == name]
    return found


def merged(below: Any, patch: Any) -> Any:
    """Return an object with a strategic merge patch: members by name, list items by their ``name``."""
    if isinstance(below, dict) and isinstance(patch, dict):
        left: Object = below  # pyright: ignore[reportUnknownVariableType]
        right: Object = patch  # pyright: ignore[reportUnknownVariableType]
        both = {key: merged(left.get(key), right[key]) if key in right else left[key] for key in left | right}
        return {key: value for key, value in both.items() if value is not None}
    if isinstance(below, list) and isinstance(patch, list):
        items: dict[str, Object] = {each["name"]: each for each in below}  # pyright: ignore[reportUnknownVariableType]
        changes: dict[str, Object] = {each["name"]: each for each in patch}  # pyright: ignore[reportUnknownVariableType]
        return list(merged(items, changes).values())
    return patch


@dataclass(frozen=True)
class Node:
    """What there is in the place of a cluster.

    ``images`` are the commands of images, ``ports`` the ports here for those of containers, and every name
    of a host is this machine. ``variables`` are set in every container, as a cloud or a host does.
    """

    folder: Path
    images: Mapping[str, list[str]]
    ports: Mapping[int, int]
    variables: Mapping[str, str]
    config: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def volume(self, name: str) -> Path:
        """Return the folder of a volume."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def here(self, text: str) -> str:
        """Return an argument with the addresses of this machine."""

        def address(found: re.Match[str]) -> str:
            port = int(found[1])
            return f"127.0.0.1:{self.ports[port]}" if port in self.ports else found[0]

        return _ADDRESS.sub(address, text)


@dataclass(frozen=True)
class Container:
    """A container: its arguments and variables as they are here, and its volumes by their paths in it."""

    name: str
    command: list[str]
    variables: dict[str, str]
    mounts: dict[str, Path]
    is_read_only: bool

    def start(self) -> Process:
        """Start it. If this machine can do so, all but its volumes is read-only for it."""
        command = self.command
        if self.is_read_only and can_be_read_only():
            volumes = " ".join(shlex.quote(str(path)) for path in self.mounts.values() if path.is_dir())
            command = ["unshare", "-m", "sh", "-ec", _READ_ONLY.format(volumes=volumes), "sh", *command]
        return Process(command, self.variables)


@cache
def can_be_read_only() -> bool:
    """Whether a process here may have mounts of its own."""
    if os.name != "posix" or os.geteuid() != 0:
        return False
    script = ["unshare", "-m", "sh", "-ec", _READ_ONLY.format(volumes=""), "sh", "true"]
    try:
        return subprocess.run(script, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def of_pod(spec: Object, node: Node, variables: Mapping[str, str] | None = None) -> Container:
    """Return a container of a pod. ``variables`` are those that a controller adds."""
    mounts = {each["mountPath"]: node.volume(each["name"]) for each in spec.get("volumeMounts", ())}
    given: dict[str, str] = {}
    for source in spec.get("envFrom", ()):
        given |= node.config[source["configMapRef"]["name"]]
    given |= {each["name"]: each["value"] for each in spec.get("env", ())} | dict(variables or {})
    arguments = (
        [_VARIABLE.sub(lambda found: given.get(found[1], found[0]), each) for each in spec["args"]]
        if ("args" in spec)
        else []
    )
    is_read_only = spec["securityContext"]["readOnlyRootFilesystem"]
    return _container(spec["name"], spec["image"], arguments, given, mounts, is_read_only, node)


def of_service(name: str, service: Object, node: Node) -> Container:
    """Return the container of a service of Compose."""
    mounts: dict[str, Path] = {}
    for each in service.get("volumes", ()):
        source, target = each.split(":")[:2]
        mounts[target] = COMPOSE.parent / source if source.startswith("./") else node.volume(source)
    for each in service.get("tmpfs", ()):
        target = each.partition(":")[0]
        mounts[target] = node.volume(name + target.replace("/", "-"))
    given = {key: str(value) for key, value in service.get("environment", {}).items()}
    image, arguments = service["image"].partition(":")[0], service.get("command", [])
    return _container(name, image, arguments, given, mounts, bool(service.get("read_only")), node)


def _container(
    name: str,
    image: str,
    arguments: list[str],
    given: Mapping[str, str],
    mounts: dict[str, Path],
    is_read_only: bool,
    node: Node,
) -> Container:
    paths = "|".join(map(re.escape, sorted(mounts, key=len, reverse=True))) or "(?!)"

    def placed(text: str) -> str:
        return re.sub(rf"(?<![\w/])({paths})(?=/|$)", lambda found: str(mounts[found[1]]), text)

    variables = {**_IMAGE_VARIABLES, "TMPDIR": "/tmp", **given}
    variables = {key: node.here(placed(value)) for key, value in variables.items()}
    if (port := variables.get("PORT", "")).isdecimal():
        variables["PORT"] = str(node.ports[int(port)])
    command = [*node.images[image], *(node.here(placed(each)) for each in arguments)]
    return Container(name, command, {**variables, **node.variables}, mounts, is_read_only)
