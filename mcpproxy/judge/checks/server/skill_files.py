"""The files of skills: whether a file that the client reads matches the entry of the skill.

A manifest has the SHA-256 digest and the size of each file. A file that does not match may have changed since
the manifest was given, which is allowed. So another digest is reported only if the file was read soon after
its digest was given or while the entry was fresh, or if the digest is given again after the file was read.
``skills`` explains the terms, and has the rows.

Source: https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx, sections
Frontmatter, Resources, and Integrity and Verification
"""

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.server.frontmatter import (
    Frontmatter,
    begins_with_frontmatter,
    frontmatter_of,
    unlike,
)
from mcpproxy.judge.checks.server.listings import SOON_NS
from mcpproxy.judge.checks.server.skill_entries import GET, SkillEntry, digest_bytes, entries_of
from mcpproxy.judge.checks.stateless.servers import declared_settings, fresh_until_ns, is_certainly_stateless
from mcpproxy.judge.checks.stateless.subscriptions import normalized_uri
from mcpproxy.judge.session.frame import Severity
from mcpproxy.judge.session.history import History, keep_latest
from mcpproxy.judge.session.masked_values import MARK
from mcpproxy.protocol.error_message import INVALID_PARAMS
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Response
from mcpproxy.protocol.message_parts import as_object, member, target_of, text_member
from mcpproxy.protocol.methods import SKILLS
from mcpproxy.protocol.shapes.nodes import is_integer
from mcpproxy.protocol.wording import shown

MAX_FILES: Final = 8_192
"""The number of files that are remembered."""

Key = tuple[str, int]
"""Identifies a file: the caller (see ``History.caller``), and a hash of its URI, which may be long."""


@slotted(frozen=True)
class ReadFile:
    """A file as it was read: the digest and the number of its bytes, and its text unless it is binary."""

    digest: bytes
    size: int
    text: str | None


@slotted()
class SkillFile:
    """What the latest entry says about one file.

    ``digest`` and ``size`` are ``None`` if the entry gives none, as for the SKILL.md of a dynamic skill.
    ``frontmatter`` is ``None`` except for the file at the URI of the entry. ``seq`` and ``given_ns``
    are the frame and the time of the entry, ``fresh_until_ns`` is the time until which the server calls it
    fresh. ``unlike_seq`` is the frame in which the file was read and did not match, 0 while there is none.
    """

    digest: bytes | None
    size: int | None
    frontmatter: Frontmatter | None
    seq: int
    given_ns: int
    fresh_until_ns: int
    unlike_seq: int = 0

    def is_unlike(self, read: ReadFile) -> bool:
        """Whether the entry gives a digest, and it is not that of the bytes that were read."""
        return self.digest is not None and self.digest != read.digest


@slotted()
class SkillFiles:
    """The files of skills, and the frame in which the server last announced that resources have changed.

    An announcement to one caller counts for all.
    """

    by_key: dict[Key, SkillFile] = field(default_factory=dict[Key, SkillFile])
    changed_seq: int = 0

    def get(self, history: History, uri: JSON) -> SkillFile | None:
        """Return the file with this URI; ``None`` if it is unknown or may have changed, or after a gap."""
        file = self.by_key.get((history.caller, hash(uri))) if isinstance(uri, str) else None
        is_known = file is not None and file.seq > self.changed_seq
        return file if is_known and not (history.has_gap or history.may_lack_messages) else None

    def was_listed(self, history: History, uri: str) -> bool:
        """Whether an entry with this URI, or a file with it and a digest, is remembered."""
        return (history.caller, hash(uri)) in self.by_key


# Reading a file


def read_file(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a file of a skill that does not match the skill's entry (SKILL-010, SKILL-011)."""
    known = _known_and_read(context, history)
    if known is None:
        return
    file, read = known
    uri, pointer = shown(target_of(context.method, _params_of(context))), context.at + "/result/contents/0"
    is_size_right = file.size in (None, read.size)
    if read.digest == file.digest and not is_size_right:
        problem = f"server gave {uri} the size {file.size} in frame {file.seq}, but it has {read.size} bytes"
        yield Violation("SKILL-010", "R-306", problem, pointer=pointer, related=(file.seq,))
    elif file.is_unlike(read) and not file.unlike_seq and (level := _mismatch_severity(context, file)):
        requirement, fault = ("R-305", "digest") if is_size_right else ("R-306", "size")
        problem = f"server sent {uri}, whose {fault} is not that in frame {file.seq}"
        problem += f": {read.size} bytes instead of {file.size}" if fault == "size" else ""
        yield Violation(
            "SKILL-010", requirement, problem, pointer=pointer, related=(file.seq,), at_most=level
        )
    if file.frontmatter is None or read.text is None:
        return
    if not begins_with_frontmatter(read.text):
        problem = f"server sent {uri}, which does not begin with YAML frontmatter"
        yield Violation("SKILL-011", "R-308", problem, pointer=pointer + "/text", related=(file.seq,))
    elif read.digest == file.digest and (difference := unlike(read.text, file.frontmatter)):
        problem = f"server sent {uri}, whose frontmatter is not that of frame {file.seq}: {difference}"
        yield Violation("SKILL-011", "R-307", problem, pointer=pointer + "/text", related=(file.seq,))


def _mismatch_severity(context: MessageContext, file: SkillFile) -> Severity | None:
    """Return the severity of a file that does not match its entry; ``None`` if it is not reported.

    The file may have changed in between. Once the entry has expired, the client has to expect that.
    """
    if context.frame.observed_at_ns - file.given_ns <= SOON_NS:
        return "warning"
    return "info" if context.frame.observed_at_ns <= file.fresh_until_ns else None


def _params_of(context: MessageContext) -> JSON:
    params = context.answers.params if context.answers is not None else None
    return params if isinstance(params, dict) else None


def _known_and_read(context: MessageContext, history: History) -> tuple[SkillFile, ReadFile] | None:
    """Return what the entry says about a file, and the file as it was read; ``None`` if that is unknown."""
    request = context.answers
    if request is None or not context.stateless:
        return None
    uri = target_of(request.method, request.params)
    file = history.across_requests(SkillFiles).get(history, uri)
    if file is None or uri is None or request.seq < file.seq:
        return None
    if not isinstance(context.derived, ReadFile):  # the state update needs it, too
        context.derived = _file_in(member(context.contents, "contents"), uri, history.masked)
    return (file, context.derived) if isinstance(context.derived, ReadFile) else None


def _file_in(contents: JSON, uri: str, may_be_masked: bool) -> ReadFile | None:
    """Return the file in the contents of a resource, ``None`` if its bytes are not known for certain."""
    if not isinstance(contents, list) or len(contents) != 1:
        return None
    text, blob = member(contents[0], "text"), member(contents[0], "blob")
    if normalized_uri(text_member(contents[0], "uri") or "") != normalized_uri(uri):
        return None
    if isinstance(text, str) and blob is None:
        charset = (text_member(contents[0], "mimeType") or "").lower().partition("charset=")[2].strip(' "')
        if charset not in ("", "utf-8", "utf8", "us-ascii") or (may_be_masked and MARK in text):
            return None
        try:
            return _hash_file(text.encode(), text)
        except UnicodeEncodeError:  # half a surrogate pair
            return None
    if isinstance(blob, str) and text is None:
        try:
            return _hash_file(a2b_base64(blob, strict_mode=True), None)
        except (Base64Error, ValueError):
            return None
    return None


def _hash_file(raw: bytes, text: str | None) -> ReadFile:
    from hashlib import sha256  # Imported late: it loads OpenSSL, which most sessions do not need.

    return ReadFile(sha256(raw).digest(), len(raw), text)


# The entries


def digest_given_again(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a digest that is given again although the file was read with another one (SKILL-010)."""
    request = context.answers
    if request is None or declared_settings(SKILLS, context, history) is None:
        return
    files, reported = history.across_requests(SkillFiles), set[str]()
    for entry in entries_of(context):
        for index, listed in enumerate(entry.files or ()):
            uri = text_member(listed, "uri")
            file = files.get(history, uri)
            if file is None or uri is None or uri in reported or not 0 < file.unlike_seq < request.seq:
                continue
            if digest_bytes(member(listed, "digest")) != file.digest:
                continue
            reported.add(uri)
            problem = (
                f"server gave {shown(uri)} the digest of frame {file.seq} again, "
                f"but frame {file.unlike_seq} has the file with another one"
            )
            yield Violation(
                "SKILL-010",
                "R-305",
                problem,
                pointer=f"{entry.pointer}/resources/{index}/digest",
                related=(file.seq, file.unlike_seq),
                at_most="warning",  # The file may have changed back, or come from another replica.
            )


def lost_skill(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a server that does not know a skill that it has just listed (SKILL-015)."""
    request = context.answers
    if request is None or declared_settings(SKILLS, context, history) is None:
        return ()
    uri = target_of(request.method, request.params)
    file = history.across_requests(SkillFiles).get(history, uri)
    if file is None or file.frontmatter is None or request.seq < file.seq:
        return ()
    if member(as_object(context.message.error), "code") != INVALID_PARAMS:
        return ()
    if not is_certainly_stateless(request.params):  # Otherwise the code may be for the faulty ``_meta``.
        return ()
    if context.frame.observed_at_ns - file.given_ns > SOON_NS:
        return ()
    problem = f"server refused {GET} of {shown(uri)}, which it listed in frame {file.seq}"
    return (
        Violation(
            "SKILL-015",
            "R-315",
            problem,
            pointer=context.at + "/error",
            related=(file.seq, request.seq),
            at_most="warning",  # The skill may have been removed in between.
        ),
    )


# State updates


def remember_entries(context: MessageContext[Response], history: History) -> None:
    """Record what the entries of a result say about each file."""
    request = context.answers
    if request is None or declared_settings(SKILLS, context, history) is None:
        return
    given_ns, until_ns = context.frame.observed_at_ns, fresh_until_ns(context)
    files = history.across_requests(SkillFiles).by_key
    for entry in entries_of(context):
        for uri, digest, size in _listed_files(entry):
            key = (history.caller, hash(uri))
            earlier = files.get(key)
            frontmatter = frontmatter_of(entry.value) if uri == entry.uri else None
            if earlier is not None and (earlier.digest, earlier.size) == (digest, size):
                if request.seq < earlier.unlike_seq:
                    continue  # The server may have made this entry before the file was read.
                frontmatter = frontmatter or earlier.frontmatter
            file = SkillFile(digest, size, frontmatter, context.seq, given_ns, until_ns)
            keep_latest(files, key, file, MAX_FILES)


def _listed_files(entry: SkillEntry) -> Iterator[tuple[str, bytes | None, int | None]]:
    """Yield the URI, digest and size of each file with a digest, and the own URI if that is not listed."""
    is_own_listed = False
    for listed in entry.files or ():
        uri, size = text_member(listed, "uri"), member(listed, "size")
        digest = digest_bytes(member(listed, "digest"))
        if uri is not None and digest is not None:
            is_own_listed |= uri == entry.uri
            yield uri, digest, int(size) if isinstance(size, int | float) and is_integer(size) else None
    if entry.uri and not is_own_listed:
        yield entry.uri, None, None


def remember_read(context: MessageContext[Response], history: History) -> None:
    """Record that a file was read and does not match its entry."""
    known = _known_and_read(context, history)
    if known is not None and known[0].is_unlike(known[1]):
        known[0].unlike_seq = known[0].unlike_seq or context.seq


def remember_change(context: MessageContext[Notification], history: History) -> None:
    """Record that the server announced a change of resources."""
    history.across_requests(SkillFiles).changed_seq = context.seq
