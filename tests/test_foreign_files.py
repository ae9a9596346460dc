"""Files of others are opened by ``base``, and what others compress is decompressed in two places.

Each file of the package that opens, makes, lists or deletes something by itself is in a table here, with
whose file it can be.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parent.parent / "mcpproxy"

BASE: Final = frozenset({"base/files.py", "base/own_sockets.py"})
"""Where such operations are safe whatever the file is."""

OWN: Final = "made by this process, exclusively, in a folder of its own"
INSTALLED: Final = "a part of mcpproxy as it is installed"
SYSTEM: Final = "of the kernel: /proc, /dev/null, /dev/tty"
JOURNAL: Final = "a journal or its lock, made by this process, or opened as a Folder with known names alone"
NAMES: Final = "only names are read; what has them is opened by base.files"
OUTPUT: Final = "the output that the user has named"
TABLES: Final = f"{OUTPUT}; below it folders are held open"

WHOSE: Final[Mapping[str, tuple[str, str]]] = {
    "show/agents/recording_library.py": ("os.walk", NAMES),
    "base/paths.py": ("os.mkdir", "new folders of the state and the cache of this user"),
    "base/system_words.py": ("os.listdir", NAMES),
    "cli/commands/faults/breakpoints.py": ("open", "the message in a temporary folder, for the editor"),
    "cli/commands/view/ui.py": ("os.open", SYSTEM),
    "cli/commands/prune.py": ("os.rmdir", "the folder of a run of validate or fuzz, if it is empty"),
    "cli/commands/validating/client.py": ("os.listdir", NAMES),
    "cli/find_traces.py": ("os.listdir", NAMES),
    "cli/main.py": ("os.open", SYSTEM),
    "cli/new_recording.py": ("os.open", SYSTEM),
    "cli/output.py": ("open os.unlink", OUTPUT + "; deleted only if this call has made it"),
    "cli/replay_update.py": ("os.replace shutil.rmtree", OUTPUT + ", and a folder made beside it"),
    "peers/client_tests/client_process.py": (".glob .read_bytes", SYSTEM),
    "peers/client_tests/served.py": ("os.listdir os.walk", NAMES),
    "send/fleet/closed_files.py": ("os.listdir", NAMES),
    "send/fleet/columns/places.py": (
        "os.listdir os.makedirs",
        OUTPUT + "; below it folders are held open",
    ),
    "send/fleet/columns/report.py": (".read_text .rglob", INSTALLED + ", and names of tables"),
    "send/fleet/deletion.py": (
        "os.listdir os.unlink",
        "a recording that was read, has not changed, and whose object was read back",
    ),
    "send/fleet/fetch.py": ("os.unlink", "the cache of this user, below which no link is followed"),
    "send/fleet/judge/client.py": ("shutil.rmtree", OWN),
    "send/fleet/judge/process.py": ("open shutil.rmtree", SYSTEM + "; the folder that its parent has made"),
    "send/fleet/judge/results.py": ("os.makedirs os.walk", TABLES),
    "send/fleet/judge/rules.py": ("os.walk", NAMES),
    "send/fleet/judge/corpus.py": (
        "os.scandir os.unlink os.walk shutil.rmtree",
        NAMES + "; scratch: " + OWN,
    ),
    "peers/fuzz/campaign.py": ("os.unlink", OWN),
    "peers/fuzz/confirmation.py": ("os.unlink shutil.move", OWN + "; moved to a free name in the output"),
    "hosts/config_writer.py": (
        "os.mkdir os.open os.replace os.rmdir os.unlink shutil.copymode",
        "a configuration that was read by base.files and is replaced; drafts and locks are made exclusively",
    ),
    "hosts/host_table.py": ("glob.escape glob.glob open", INSTALLED + ", and names"),
    "hosts/skill.py": (
        "os.listdir os.makedirs os.rmdir os.unlink",
        "a skill that base.files has read and that is as it was written, and empty folders made for it",
    ),
    "gate/intercept/addons/addon_findings.py": ("open", "the recording that this session writes"),
    "gate/intercept/fault_sets.py": ("os.listdir", INSTALLED),
    "record/recorder/draft.py": ("open shutil.copyfileobj shutil.rmtree", OWN),
    "record/recorder/foreign_journals.py": ("os.mkdir shutil.copyfileobj", OWN),
    "record/recorder/journal_reader.py": ("os.rmdir", JOURNAL),
    "record/recorder/liveness.py": ("open os.listdir", SYSTEM),
    "record/recorder/lock.py": ("os.listdir os.rmdir os.unlink", JOURNAL),
    "record/recorder/recovery.py": ("os.unlink", "a later file of the recording, checked to be one"),
    "record/relay/crash_buffer.py": ("os.open", JOURNAL),
    "record/relay/journal.py": ("os.mkdir os.open os.rmdir os.unlink", JOURNAL),
    "record/relay/priority.py": ("open", SYSTEM),
    "record/relay/stdio/inheritance.py": ("open os.listdir os.open", SYSTEM),
    "record/relay/stdio/witness.py": ("open", SYSTEM),
    "record/relay/stdio/sinks.py": ("os.open", SYSTEM),
    "show/ui/page_file.py": (".glob .read_text", INSTALLED),
    "show/ui/static_files.py": (".glob .read_bytes .read_text .rglob", INSTALLED),
    "show/ui/redirect_file.py": (
        "open os.open os.unlink",
        "made exclusively by this process in the home folder",
    ),
    "judge/ruleset/catalogue.py": ("open os.listdir", INSTALLED),
    "judge/ruleset/host_facts.py": ("open os.listdir", INSTALLED),
    "judge/ruleset/custom_rule_loader.py": (".glob", NAMES),
    "judge/ruleset/rule_options.py": ("os.listdir", NAMES),
    "testing/__init__.py": (".glob .mkdir open", "recordings of this process, and the output of the test"),
    "record/trace/copy.py": ("os.unlink", "the copy, if this call has made it"),
    "record/trace/recorded_folders.py": ("os.walk", NAMES),
    "record/trace/shipped_files.py": ("os.unlink", "the note beside a recording, by its name"),
    "show/ui/library.py": ("os.listdir", NAMES),
    "read/view/folder.py": ("os.listdir", NAMES),
}
"""Which operations a file has, and whose file each can be."""

DECOMPRESSORS: Final[Mapping[str, str]] = {
    "send/fleet/object_contents.py": "zstandard store.stream",
    "send/fleet/deletion.py": "store.stream",  # only hashed
    "send/fleet/manifest_chain.py": "store.stream",  # only hashed
    "send/fleet/packing.py": "zstandard",  # only compresses
    "send/fleet/store.py": "obstore.get obstore",
    "record/framing/coding.py": "zlib.decompressobj",
}
"""Which files decompress or fetch; each counts what comes against a ``ByteBudget``, or keeps none of it."""

_OF_OS: Final = frozenset(
    {
        "open", "unlink", "remove", "rename", "replace", "renames", "rmdir", "removedirs", "link", "symlink",
        "truncate", "walk", "fwalk", "listdir", "scandir", "mkdir", "makedirs", "chmod", "chown", "mkfifo",
    }
)  # fmt: skip
_OF_PATHS: Final = frozenset(
    {
        "read_text", "read_bytes", "write_text", "write_bytes", "rmdir", "iterdir", "glob", "rglob", "mkdir",
        "hardlink_to", "symlink_to",
    }
)  # fmt: skip
_MODULES: Final = frozenset({"zstandard", "gzip", "bz2", "lzma", "zipfile", "tarfile", "obstore"})
_SAFE: Final = frozenset({"open_regular", "create", "open"})
"""What gives a descriptor of a regular file: functions and methods of ``base.files``, and ``os.open``."""


def operations(tree: ast.AST) -> Iterator[str]:
    """Yield what is done to files by their names."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="open"), args=[first, *_]) if not _is_open_already(first):
                yield "open"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr=name)) if name in _OF_OS:
                yield f"os.{name}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="shutil"), attr=name)):
                if name not in ("which", "disk_usage"):
                    yield f"shutil.{name}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="glob"), attr=name)):
                yield f"glob.{name}"
            case ast.Attribute(attr="AF_UNIX"):
                yield "AF_UNIX"
            case ast.Call(func=ast.Attribute(attr=name)) if name in _OF_PATHS:
                yield f".{name}"
            case _:
                pass


def _is_open_already(first: ast.expr) -> bool:
    match first:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name in _SAFE
        case ast.Name(id=name):
            return name.endswith("fd")
        case _:
            return False


def decompression(tree: ast.AST) -> Iterator[str]:
    """Yield what decompresses, or fetches an object."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in _MODULES)
            case ast.ImportFrom(module=str(module), names=names) if module in _MODULES:
                if [alias.name for alias in names] != ["compress"] and module != "obstore":
                    yield module
            case ast.Attribute(value=ast.Name(id="zlib"), attr="decompress" | "decompressobj" as name):
                yield f"zlib.{name}"
            case ast.Attribute(value=ast.Name(id="obstore"), attr="get" | "get_range" | "get_ranges" as name):
                yield f"obstore.{name}"
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Name(id="store") | ast.Attribute(attr="store" | "_store"), attr="stream"
                )
            ):
                yield "store.stream"
            case _:
                pass


def _found(of: Callable[[ast.AST], Iterator[str]]) -> dict[str, set[str]]:
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    found = {name: set(of(ast.parse(path.read_bytes()))) for name, path in paths.items() if name not in BASE}
    return {name: each for name, each in found.items() if each}


def test_files_of_others_are_opened_by_base_alone() -> None:
    assert _found(operations) == {name: set(listed.split()) for name, (listed, _) in WHOSE.items()}


def test_what_is_decompressed_or_fetched_counts_against_a_budget() -> None:
    assert _found(decompression) == {name: set(listed.split()) for name, listed in DECOMPRESSORS.items()}


def test_the_two_places_that_decompress_have_a_budget() -> None:
    for name in ("send/fleet/object_contents.py", "record/framing/coding.py"):
        text = (PACKAGE / name).read_text(encoding="utf-8")
        assert "from mcpproxy.base.byte_budget import ByteBudget" in text
        assert ".take(" in text
