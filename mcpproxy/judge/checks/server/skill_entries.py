"""The entries of skills: faults in their URIs, frontmatter and manifests.

``skills`` explains these terms, and has the rows.

Source: https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx, sections
Resource Mapping and Skill Entries; https://agentskills.io/specification, sections name and description.
"""

import unicodedata
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.stateless.servers import declared_settings
from mcpproxy.judge.checks.stateless.subscriptions import normalized_uri
from mcpproxy.judge.session.history import History
from mcpproxy.judge.session.masked_values import holds_mask
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Response
from mcpproxy.protocol.message_parts import as_object, member, target_of, text_member
from mcpproxy.protocol.methods import SKILLS
from mcpproxy.protocol.shapes.nodes import is_integer
from mcpproxy.protocol.wording import kind, shown

LIST: Final = "skills/list"
GET: Final = "skills/get"
DIRECTORY: Final = "resources/directory/read"
"""The methods of the Skills extension."""

ENTRIES: Final = (LIST, GET)
"""Requests whose results have entries."""

SKILL_FILE: Final = "SKILL.md"

MAX_FILES: Final = 512
MAX_BYTES: Final = 16 << 20
"""The number of files, and the bytes in all files together, that every host accepts in a skill."""

MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1024
"""The number of characters that a skill's name and its description may have."""

_DIGEST: Final = pattern(r"sha256:[0-9a-f]{64}")


@slotted(frozen=True)
class SkillEntry:
    """An entry of a result, its JSON Pointer, and its URI and name, which are empty if they are not strings.

    ``path`` has the segments of the skill's directory in the URI; it is empty if they are not known.
    ``files`` is the manifest, ``None`` if there is none.
    """

    pointer: str
    value: JSONObject
    uri: str
    name: str
    path: tuple[str, ...]
    files: list[JSON] | None


@slotted(frozen=True)
class SkillEntries:
    """The entries of one result, for the checks and state updates that need them."""

    entries: tuple[SkillEntry, ...]


def skill_entries(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report faults in the entries of skills, in each alone and in those of one result together (SKILL-004,
    SKILL-005, SKILL-006, SKILL-007, SKILL-008, SKILL-009).
    """
    request, result = context.answers, as_object(context.message.result)
    if request is None or result is None or declared_settings(SKILLS, context, history) is None:
        return
    if not is_final(result) or (history.masked and holds_mask(result)):
        return
    if request.method == LIST and not isinstance(result.get("skills"), list):
        problem = f"server answered {LIST} with {_describe_member(result, 'skills')} instead of an array"
        yield Violation("SKILL-004", "R-290", problem, pointer=context.at + "/result")
    if request.method == GET:
        asked_uri, uri = target_of(GET, request.params), text_member(result, "skill", "uri")
        if not isinstance(result.get("skill"), dict):
            problem = f"server answered {GET} with {_describe_member(result, 'skill')} instead of an object"
            yield Violation("SKILL-004", "R-291", problem, pointer=context.at + "/result")
        elif asked_uri and uri and normalized_uri(asked_uri) != normalized_uri(uri):
            problem = f"server answered {GET} of {shown(asked_uri)} with the skill {shown(uri)}"
            yield Violation("SKILL-004", "R-291", problem, pointer=context.at + "/result/skill/uri")
    entries = entries_of(context)
    for entry in entries:
        yield from _member_faults(entry)
        yield from _naming_faults(entry)
        yield from _manifest_faults(entry)
    yield from _incomplete_manifests(entries)
    yield from _repeated_names(entries)


def is_final(result: JSONObject) -> bool:
    """Whether a result completes its request, and neither asks for input nor refers to a task."""
    return result.get("resultType", "complete") == "complete"


def _describe_member(result: JSONObject, name: str) -> str:
    """Return what a result has as the member ``name``, in words."""
    return f"{kind(result[name])} for {name}" if name in result else f"no {name}"


def entries_of(context: MessageContext[Response]) -> tuple[SkillEntry, ...]:
    """Return the entries in a result of skills/list or skills/get.

    What is not an object becomes an empty entry in skills/list, and no entry in skills/get.
    """
    if not isinstance(context.derived, SkillEntries):
        context.derived = SkillEntries(tuple(_entries(context)))
    return context.derived.entries


def _entries(context: MessageContext[Response]) -> Iterator[SkillEntry]:
    result, at = context.message.result, context.at + "/result"
    skills = member(result, "skills")
    if context.method == GET:
        skill = as_object(member(result, "skill"))
        if skill is not None:
            yield _entry(skill, at + "/skill")
        return
    for index, value in enumerate(skills if isinstance(skills, list) else ()):
        yield _entry(as_object(value) or {}, f"{at}/skills/{index}")


def _entry(value: JSONObject, pointer: str) -> SkillEntry:
    uri, name = text_member(value, "uri") or "", text_member(value, "frontmatter", "name") or ""
    files = value.get("resources")
    segments = _segments(uri)
    path = segments[:-1] if segments[-1] == SKILL_FILE else ()
    return SkillEntry(pointer, value, uri, name, path, files if isinstance(files, list) else None)


def _segments(uri: str) -> tuple[str, ...]:
    """Return the segments of a URI's authority and path, without percent-encoding."""
    from urllib.parse import unquote  # imported here: it takes 3 ms, and few sessions need it

    path = uri.partition("#")[0].partition("?")[0].partition(":")[2].removeprefix("//")
    return tuple(map(unquote, path.split("/")))


def ends_in_skill_file(uri: str) -> bool:
    """Whether a URI may be that of a SKILL.md: its path ends in this name, or its query or fragment does."""
    return _segments(uri)[-1] == SKILL_FILE or uri.endswith("/" + SKILL_FILE)


# One entry


def _member_faults(entry: SkillEntry) -> Iterator[Violation]:
    """Report members that are missing or have the wrong type (SKILL-005)."""
    value, frontmatter = entry.value, as_object(entry.value.get("frontmatter"))
    is_right_by_member = {
        "uri": isinstance(value.get("uri"), str),
        "frontmatter": frontmatter is not None,
        "frontmatter/name": frontmatter is None or isinstance(frontmatter.get("name"), str),
        "frontmatter/description": frontmatter is None or isinstance(frontmatter.get("description"), str),
    }
    for name, is_right in is_right_by_member.items():
        if not is_right:
            expected = "an object" if name == "frontmatter" else "a string"
            problem = f"server sent {_phrase_for(entry)} without {expected} for {name.replace('/', '.')}"
            yield Violation("SKILL-005", "R-293", problem, pointer=entry.pointer)
    if entry.files is None and value.get("resources") != "dynamic":
        found = "no resources" if "resources" not in value else f"{shown(value['resources'])} for resources"
        problem = f'server sent {_phrase_for(entry)} with {found} instead of an array or "dynamic"'
        yield Violation("SKILL-005", "R-294", problem, pointer=entry.pointer)


def _phrase_for(entry: SkillEntry) -> str:
    return f"the skill {shown(entry.uri or entry.name)}" if entry.uri or entry.name else "a skill"


def _naming_faults(entry: SkillEntry) -> Iterator[Violation]:
    """Report a name, URI or description that breaks the rules of Agent Skills (SKILL-006)."""
    pointer = entry.pointer + "/uri"
    if entry.uri and not ends_in_skill_file(entry.uri):
        problem = f"server sent a skill whose URI does not end in {SKILL_FILE}: {shown(entry.uri)}"
        yield Violation("SKILL-006", "R-297", problem, pointer=pointer)
    if entry.path and entry.name and not _is_same_name(entry.path[-1], entry.name):
        problem = (
            f"server sent the skill {shown(entry.name)} at {shown(entry.uri)}, in a directory of another name"
        )
        yield Violation("SKILL-006", "R-295", problem, pointer=pointer)
    frontmatter = entry.value.get("frontmatter")
    name, description = text_member(frontmatter, "name"), text_member(frontmatter, "description")
    if name is not None and (fault := _name_fault(name)):
        problem = f"server sent a skill whose name {fault}: {shown(name)}"
        yield Violation("SKILL-006", "R-296", problem, pointer=entry.pointer + "/frontmatter/name")
    # A folded text of YAML ends with a line break, which is not counted.
    length = None if description is None else len(description.strip())
    if length is not None and not 0 < length <= MAX_DESCRIPTION:
        fault = f"has {length} characters, more than {MAX_DESCRIPTION}" if length else "is empty"
        problem = f"server sent {_phrase_for(entry)}, whose description {fault}"
        yield Violation("SKILL-006", "R-298", problem, pointer=entry.pointer + "/frontmatter/description")


def _is_same_name(segment: str, name: str) -> bool:
    # Two spellings of the same characters: a composed letter, or a letter and its accent.
    return unicodedata.normalize("NFKC", segment) == unicodedata.normalize("NFKC", name)


def _name_fault(name: str) -> str:
    """Return what is wrong with the name of a skill, as a clause; empty if it is allowed.

    The specification says "unicode lowercase alphanumeric". Letters of a script without case are allowed,
    too.
    """
    if not 0 < len(name) <= MAX_NAME:
        return f"has {len(name)} characters, more than {MAX_NAME}" if name else "is empty"
    normal_name = unicodedata.normalize("NFKC", name)
    stray = next((c for c in normal_name if not (c == "-" or c.isalnum() or _is_mark(c))), None)
    if stray is not None:
        return f"has {shown(stray)}, which is no letter, digit or hyphen"
    if normal_name != normal_name.lower():
        return "is not in lower case"
    if name.startswith("-") or name.endswith("-"):
        return "begins or ends with a hyphen"
    return "has two hyphens in a row" if "--" in name else ""


def _is_mark(character: str) -> bool:
    """Whether a character is a mark on the letter before it, such as the vowel signs of some scripts."""
    return unicodedata.category(character).startswith("M")


# The manifest


def _manifest_faults(entry: SkillEntry) -> Iterator[Violation]:
    """Report the first fault of each kind in a manifest, and a skill that is too large (SKILL-007,
    SKILL-008).
    """
    if entry.files is None:
        return
    pointer, total_bytes = entry.pointer + "/resources", 0
    first_index: dict[str, int] = {}
    reported: set[str] = set()
    for index, file in enumerate(entry.files):
        uri, size = text_member(file, "uri"), member(file, "size")
        total_bytes += int(size) if isinstance(size, int | float) and is_integer(size) else 0
        faults: list[tuple[str, str, str]] = []
        if (fault := _file_fault(file)) is not None:
            faults.append(fault)
        if uri is not None and uri in first_index:
            faults.append(("R-300", f"lists the file {shown(uri)} twice", "/uri"))
        if uri is not None and entry.path and not _is_inside(uri, entry):
            faults.append(("R-301", f"lists {shown(uri)}, which is not in its directory", "/uri"))
        if uri is not None:
            first_index.setdefault(uri, index)
        for requirement, clause, place in faults:
            if requirement not in reported:
                reported.add(requirement)
                problem = f"server sent {_phrase_for(entry)}, which {clause}"
                yield Violation("SKILL-007", requirement, problem, pointer=f"{pointer}/{index}{place}")
    if entry.uri and entry.uri not in first_index and not _has_variant(entry.uri, first_index):
        problem = f"server sent {_phrase_for(entry)} with a list of files that lacks {SKILL_FILE} itself"
        yield Violation("SKILL-007", "R-300", problem, pointer=pointer)
    if len(entry.files) > MAX_FILES:
        problem = f"server sent {_phrase_for(entry)} with {len(entry.files)} files, more than {MAX_FILES}"
        yield Violation("SKILL-008", "R-303", problem, pointer=pointer)
    if total_bytes > MAX_BYTES:
        problem = (
            f"server sent {_phrase_for(entry)} with {total_bytes} bytes in its files, more than {MAX_BYTES}"
        )
        yield Violation("SKILL-008", "R-303", problem, pointer=pointer)


def _has_variant(uri: str, uris: dict[str, int]) -> bool:
    """Whether one of ``uris`` is another spelling of ``uri``."""
    normal_uri = normalized_uri(uri)
    return any(normalized_uri(listed_uri) == normal_uri for listed_uri in uris)


def _file_fault(file: JSON) -> tuple[str, str, str] | None:
    """Return what is wrong with a file in a manifest; ``None`` if nothing is.

    The parts are the requirement, a clause about the skill, and the JSON Pointer within the file's object.
    """
    uri, digest, size = text_member(file, "uri"), member(file, "digest"), member(file, "size")
    if uri is None:
        return "R-299", "lists a file without a URI", ""
    if digest is None:
        return "R-299", f"lists {shown(uri)} without a digest", ""
    if digest_bytes(digest) is None:
        form = "sha256: and 64 lower-case hex digits"
        return "R-299", f"lists {shown(uri)} with the digest {shown(digest)}, not {form}", "/digest"
    if size is None:
        return "R-317", f"lists {shown(uri)} without a size", ""
    if not isinstance(size, int | float) or not is_integer(size) or size < 0:
        return "R-317", f"lists {shown(uri)} with the size {shown(size)}, not a number of bytes", "/size"
    return None


def digest_bytes(digest: JSON) -> bytes | None:
    """Return the bytes of a digest in a manifest, ``None`` if it is malformed."""
    is_digest = isinstance(digest, str) and _DIGEST.fullmatch(digest)
    return bytes.fromhex(digest[7:]) if is_digest and isinstance(digest, str) else None


def _is_inside(uri: str, entry: SkillEntry) -> bool:
    """Whether a URI is that of a file in the directory of a skill."""
    if uri.startswith(entry.uri.removesuffix(SKILL_FILE)) and "/.." not in uri:
        return True  # Most URIs are spelled alike, and splitting them takes ten times as long.
    is_same_scheme = uri.partition(":")[0].lower() == entry.uri.partition(":")[0].lower()
    # The case of letters and a second spelling make no difference in some parts of a URI.
    segments = tuple(map(str.lower, _segments(uri)))
    path = tuple(map(str.lower, entry.path))
    return is_same_scheme and segments[: len(path)] == path and ".." not in segments[len(path) :]


# The entries of one result


def _incomplete_manifests(entries: tuple[SkillEntry, ...]) -> Iterator[Violation]:
    """Report a skill that leaves out a file of another skill in its directory (SKILL-007)."""
    by_path = {
        _directory_key(entry.uri, entry.path): entry
        for entry in entries
        if entry.path and entry.files is not None
    }
    listed_by: dict[tuple[str, ...], set[str]] = {}
    for entry in by_path.values():
        for depth in range(1, len(entry.path)):
            key = _directory_key(entry.uri, entry.path[:depth])
            outer = by_path.get(key)
            if outer is None:
                continue
            listed = listed_by.get(key)
            if listed is None:
                listed = listed_by[key] = set(map(normalized_uri, _uris(outer)))
            left_out = next((uri for uri in _uris(entry) if normalized_uri(uri) not in listed), None)
            if left_out is not None:
                problem = (
                    f"server sent {_phrase_for(outer)}, which lacks {shown(left_out)} of the skill within it"
                )
                yield Violation("SKILL-007", "R-302", problem, pointer=outer.pointer + "/resources")


def _uris(entry: SkillEntry) -> Iterator[str]:
    """Yield the URIs in a manifest."""
    for file in entry.files or ():
        if (uri := text_member(file, "uri")) is not None:
            yield uri


def _directory_key(uri: str, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return a key for a directory: its scheme, its path, and the query, which may name a version of it."""
    return (uri.partition(":")[0].lower(), *path, uri.partition("?")[2])


def _repeated_names(entries: tuple[SkillEntry, ...]) -> Iterator[Violation]:
    """Report a name that a skill with another URI has in the same result (SKILL-009)."""
    first: dict[str, SkillEntry] = {}
    for entry in entries:
        earlier = first.setdefault(entry.name, entry)
        if entry.name and earlier.uri != entry.uri:
            places = f"{shown(earlier.uri)} and {shown(entry.uri)}"
            problem = f"server listed two skills with the name {shown(entry.name)}: {places}"
            yield Violation("SKILL-009", "R-304", problem, pointer=entry.pointer + "/frontmatter/name")
