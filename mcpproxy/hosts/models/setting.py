"""Plans that point a host at ``mcpproxy model``, the proxy before its language model, or undo this.

Only scheme, host and port of the model's address are replaced. Its path stays, because ``mcpproxy model``
forwards a request to the same path.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from mcpproxy.errors import UsageError
from mcpproxy.hosts.config_writer import check_writable, remove_draft, replace_content, sha256
from mcpproxy.hosts.document import Document, quoted
from mcpproxy.hosts.errors import HostFileError, not_alone
from mcpproxy.hosts.host_table import Host, ModelSetting, all_hosts, model_files
from mcpproxy.hosts.jsonc import departures
from mcpproxy.hosts.models.records import SettingRecord, SettingRecords, save_settings, setting_records
from mcpproxy.hosts.own_server import json_insertion, json_removal
from mcpproxy.hosts.plans import FilePlan
from mcpproxy.hosts.remote import address_of, url_through
from mcpproxy.hosts.server_entries import ConfigFile, read_file
from mcpproxy.hosts.text_nodes import Edit, Node, Path, edited, find, plain, text_of


class ByHandError(HostFileError):
    """The user has to write the setting: there is no file, or no place in it where mcpproxy can write it."""


@dataclass(frozen=True, slots=True)
class SettingPlan:
    """The change of a host's file that writes or undoes the setting, and the record of the setting."""

    file_plan: FilePlan
    record: SettingRecord

    @property
    def is_original(self) -> bool:
        """Whether every byte of the file will be as before the setting was written."""
        return sha256(self.file_plan.content) == self.record.sha256_before


def setting_of(host: Host) -> ModelSetting:
    """Return the setting in which a host stores the address of its model.

    Raises:
        UsageError: no such setting is known.
    """
    if host.model is None:
        known = ", ".join(known_host.id for known_host in all_hosts() if known_host.model)
        fact = "no setting is known by which it takes the address of a model"
        raise UsageError(host.name, fact, f"one is known of {known}")
    return host.model


def usual_service(setting: ModelSetting) -> str:
    """Return the address that the host uses by default, whatever the provider; empty if none is known."""
    return dict(setting.services).get("*", "")


def plan_setting(host: Host, listen: str, records: SettingRecords) -> SettingPlan | None:
    """Return the plan that points a host at ``listen`` (host and port); ``None`` if it is already done.

    Raises:
        ByHandError: there is no file, or no place in it where mcpproxy may write the setting, or the address
            of the model is unknown.
        UsageError: no setting of the host is known.
        HostFileError: the file cannot be read or written, or has an address that cannot be replaced.
    """
    setting = setting_of(host)
    file = _setting_file(host, setting)
    at, service = _key_and_service(setting, file)
    key, document = ".".join(at), file.document
    node = find(document.root, at)
    current = text_of(node)
    if node is not None and current is None:
        raise HostFileError(file.path, f"{key} is no string", "correct it first")
    record = records.get((host.id, file.real_path))
    if record and (record.at, record.url) == (at, current):
        if record.listen == listen:
            return None
        fact = f"{key} leads to mcpproxy model at {record.listen} already"
        raise HostFileError(file.path, fact, f"first mcpproxy unwrap {host.id} --model")
    upstream = current or _environment_address(setting, listen) or service
    if not upstream:
        raise ByHandError(file.path, f"it has no {key}", "set it by hand")
    address = address_of(upstream)
    if address is None:
        raise HostFileError(file.path, f"{key} has variables or a user in it", "set it by hand")
    if address.netloc == listen:
        raise HostFileError(file.path, f"{key} is {listen} already, and not by mcpproxy", "take it out first")
    check_writable(file)
    url = url_through(address, listen)
    edit = Edit(node.start, node.end, quoted(url)) if node else _insertion(document, at, url)
    if edit is None:
        raise ByHandError(file.path, f"it has no {key}", "set it by hand")
    plan = FilePlan(file, new_text=edited(document.text, [edit]))
    new_node = find(_checked_document(plan, at, url).root, at)
    assert new_node is not None
    record = SettingRecord(
        host=host.id,
        file=file.real_path,
        at=at,
        old=document.text[edit.start : edit.end],
        new=edit.new,
        lead=new_node.start - edit.start,
        url=url,
        upstream=upstream,
        listen=listen,
        sha256_before=sha256(file.data),
    )
    return SettingPlan(plan, record)


def plan_undo(record: SettingRecord) -> SettingPlan | None:
    """Return the plan that undoes a setting; ``None`` if its file no longer has the address of the record.

    Raises:
        HostFileError: the file cannot be read or written, or the change would also change other values.
    """
    if (written := _find_written(record)) is None:
        return None
    file, node = written
    document = file.document
    check_writable(file)
    for edit in _undo_edits(document, node, record):
        plan = FilePlan(file, new_text=edited(document.text, [edit]))
        try:
            _checked_document(plan, record.at, None if record.lead else _scalar(record.old, document))
        except HostFileError:
            continue
        return SettingPlan(plan, record)
    raise not_alone(file.path)


def is_written(record: SettingRecord) -> bool:
    """Whether the host's file has the address in the record. Also true if the file cannot be read."""
    try:
        return _find_written(record) is not None
    except HostFileError:
        return True


def write_setting(plan: SettingPlan) -> None:
    """Write the record, then the file. The caller has locked the ledger (``ledger.locked_ledger``).

    Raises:
        HostFileError: one of them cannot be written. The file is unchanged.
    """
    before, record = setting_records(), plan.record
    save_settings({**before, (record.host, record.file): record})
    try:
        _write_file(plan)
    except HostFileError:
        with suppress(HostFileError):  # a record whose address is not in the file does no harm
            save_settings(before)
        raise


def undo_setting(plan: SettingPlan) -> None:
    """Write the file, then drop the record. The caller has locked the ledger.

    Raises:
        HostFileError: one of them cannot be written.
    """
    _write_file(plan)
    forget(plan.record)


def forget(record: SettingRecord) -> None:
    """Drop a record. The caller has locked the ledger.

    Raises:
        HostFileError: the records cannot be read or written.
    """
    kept = {place: other for place, other in setting_records().items() if other != record}
    save_settings(kept)


def _write_file(plan: SettingPlan) -> None:
    remove_draft(plan.file_plan.file.real_path)
    replace_content(plan.file_plan.file, plan.file_plan.content)


def _find_written(record: SettingRecord) -> tuple[ConfigFile, Node] | None:
    """Return the file of a setting, and the setting's node; ``None`` if it is gone or has another value.

    Raises:
        HostFileError: the file cannot be read.
    """
    if not os.path.lexists(record.file):
        return None
    file = read_file(record.file, os.path.dirname(record.file))
    node = find(file.document.root, record.at)
    return (file, node) if node is not None and text_of(node) == record.url else None


def _setting_file(host: Host, setting: ModelSetting) -> ConfigFile:
    paths = model_files(setting)
    if not paths:
        raise ByHandError(host.name, "no file of its own has the address of its model", "set it by hand")
    path = next(filter(os.path.lexists, paths), "")
    if not path:
        raise ByHandError(paths[0], "no such file", "mcpproxy makes none")
    return read_file(path, os.path.expanduser("~"))


def _key_and_service(setting: ModelSetting, file: ConfigFile) -> tuple[tuple[str, ...], str]:
    """Return the keys that lead to the setting, and the address that the host uses without it, if known.

    Raises:
        ByHandError: the file does not say which provider is chosen.
    """
    services = dict(setting.services)
    if not setting.provider:
        return setting.key, services.get("*", "")
    chosen = text_of(find(file.document.root, setting.provider))
    if not chosen:
        raise ByHandError(file.path, f"it has no {'.'.join(setting.provider)}", "set it by hand")
    provider = chosen.partition("/")[0]
    at = tuple(provider if step == "*" else step for step in setting.key)
    return at, services.get(provider, services.get("*", ""))


def _environment_address(setting: ModelSetting, listen: str) -> str:
    """Return the address in the setting's environment variable; empty if there is none, or it is ours."""
    url = os.environ.get(setting.variable, "") if setting.variable else ""
    address = address_of(url)
    return "" if address and address.netloc == listen else url


def _insertion(document: Document, at: Path, url: str) -> Edit | None:
    """Return the edit that adds the setting; ``None`` if there is no table for it.

    It is ``None``, too, in TOML and YAML, where the place of the setting depends on the layout.
    """
    return json_insertion(document, [str(step) for step in at], url) if document.language == "json" else None


def _undo_edits(document: Document, node: Node, record: SettingRecord) -> Iterator[Edit]:
    """Yield the edits that may undo a setting, the best first.

    The first edit restores the replaced text; it is possible only if the written text is unchanged. The
    second edit restores or removes only the value.
    """
    start = node.start - record.lead
    if start >= 0 and document.text.startswith(record.new, start):
        yield Edit(start, start + len(record.new), record.old)
    if not record.lead:
        yield Edit(node.start, node.end, record.old)
    elif document.language == "json" and (holder := find(document.root, record.at[:-1])):
        yield json_removal(document, holder, node)


def _checked_document(plan: FilePlan, at: Path, value: object) -> Document:
    """Return the document that a plan makes, after checking that it differs only at ``at``.

    ``value`` must be at ``at``; ``None`` if nothing may be there.

    Raises:
        HostFileError: another value is there, the document differs elsewhere, or it departs from strict JSON
            in more places than before.
    """
    before = plan.file.document
    try:
        after = Document(plan.file.path, plan.content, before.language)
    except HostFileError:
        raise not_alone(plan.file.path) from None
    is_right = plain(find(after.root, at)) == value
    is_same = _without_value(plain(before.root), at) == _without_value(plain(after.root), at)
    # If an edit leaves a comma after the last member, a host that reads strict JSON drops the file.
    is_json = before.language == "json"
    if not (is_right and is_same) or (is_json and len(departures(after.text)) > len(departures(before.text))):
        raise not_alone(plan.file.path)
    return after


def _without_value(value: object, at: Path) -> object:
    """Return ``value`` without the value at ``at``, and without tables that this makes empty."""
    if not isinstance(value, dict):
        return value
    table = cast("dict[object, object]", value)
    rest = {key: member for key, member in table.items() if key != at[0]}
    inner = _without_value(table[at[0]], at[1:]) if at[1:] and at[0] in table else None
    return {**rest, at[0]: inner} if inner else rest


def _scalar(token: str, document: Document) -> str | None:
    """Return the string that ``token`` means in the language of the document; ``None`` for other values."""
    text = f'{{"x": {token}}}' if document.language == "json" else f"x = {token}\n"
    return text_of(find(Document("", text.encode(), document.language).root, ("x",)))
