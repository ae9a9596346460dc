"""Shipping to a folder, which is a store like any other: what is shipped, when, and what is said."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mcpproxy.base.byte_budget import ByteBudget
from mcpproxy.record.recorder.recovery import recover
from mcpproxy.send.fleet import manifest, ship
from mcpproxy.send.fleet.fetch import fetch, stored_recordings
from mcpproxy.send.fleet.file_lock import lock_file
from mcpproxy.send.fleet.ship import Shipper
from mcpproxy.send.fleet.store import Store
from mcpproxy.send.fleet.verify import verify
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy, mcpproxy, state_dir
from tests.recorder import journals
from tests.recorder.journals import JournalFolder
from tests.recorder.test_rotation import PINGS, rotated

__all__ = ["mcpproxy", "state_dir"]

SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "recordings"
    folder.mkdir()
    return folder


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path / 'a store'}".replace(" ", "%20")


def manifests(url: str) -> list[manifest.Manifest]:
    store = Store(url)
    found = sorted(each.key for each in store.list(manifest.FOLDER))
    return [manifest.decode(store.read(key)) for key in found]


def test_a_recording_is_shipped_with_a_manifest(mcpproxy: Mcpproxy, folder: Path, url: str) -> None:
    recordings.write(folder / "t.jsonl", recordings.FAULTY)
    ran = mcpproxy("ship", str(folder), url)
    assert (ran.code, ran.out) == (0, "")
    (one,) = manifests(url)
    assert (one.number, one.previous, one.name, one.part, one.label) == (1, "", "t.jsonl", 1, "weather")
    assert one.key.startswith("recordings/date=2026-11-21/server=weather/")
    assert (one.server, one.client, one.revision) == ("s 1", "c 1", "2025-11-25")
    assert one.findings == {"error": 1, "warning": 0, "info": 0}
    assert one.rules == {"PROTO-007": 1}
    assert one.bytes == (folder / "t.jsonl").stat().st_size
    assert mcpproxy("verify", url).code == 0


def test_recordings_in_folders_below_are_named_with_the_command(
    mcpproxy: Mcpproxy, folder: Path, url: str
) -> None:
    recordings.write(folder / "t.jsonl", recordings.CLEAN)
    for number, name in enumerate(["a", "b b", "b b/c", "d", "e"], 1):
        (folder / name).mkdir()
        for each in range(number):
            recordings.write(folder / name / f"{each}.jsonl", recordings.CLEAN)
    ran = mcpproxy("ship", f"{folder}/", url)
    assert ran.code == 0
    *left_out, done = ran.err.splitlines()
    said = "in this folder left out; mcpproxy ship"
    assert left_out == [
        f"mcpproxy: {folder}/a: 1 recording {said} {folder}/a {url}",
        f"mcpproxy: {folder}/b b: 2 recordings {said} '{folder}/b b' {url}",
        f"mcpproxy: {folder}/b b/c: 3 recordings {said} '{folder}/b b/c' {url}",
        "mcpproxy: 2 more folders with recordings left out",
    ]
    assert done.startswith("mcpproxy: 1 file shipped to ")


def test_recordings_of_a_store_go_by_their_urls(
    mcpproxy: Mcpproxy, folder: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        recordings.write(folder / f"{name}.jsonl", recordings.CLEAN)
    Shipper(str(folder), url).ship()
    listed = [one["path"] for one in json.loads(mcpproxy("list", url, "--json").out)["traces"]]
    monkeypatch.setenv("COLUMNS", "100")
    _, *rows = mcpproxy("list", url).out.splitlines()
    shown = [row.rpartition("…")[2] for row in rows]
    assert len(set(shown)) == 2
    assert all(
        whole.endswith(end) and len(row) <= 100 for whole, end, row in zip(listed, shown, rows, strict=True)
    )
    monkeypatch.delenv("COLUMNS")
    for arguments in ([], ["--frames"]):
        assert mcpproxy("show", listed[0], *arguments).out.splitlines()[0] == listed[0]
    heads = [line.partition(" ")[0] for line in mcpproxy("show", "--all", url).out.splitlines()]
    assert set(listed) <= set(heads)


def test_a_shipped_file_is_not_shipped_again(folder: Path, url: str) -> None:
    recordings.write(folder / "t.jsonl", recordings.CLEAN)
    assert len(Shipper(str(folder), url).ship().files) == 1
    assert len(Shipper(str(folder), url).ship().files) == 0
    recordings.write(folder / "u.jsonl", recordings.FAULTY)
    (second,) = Shipper(str(folder), url).ship().files
    assert second.number == 2
    assert second.previous == manifest.link_of(Store(url).read(manifest.key_of(second.chain, 1)))


def test_an_object_without_a_manifest_gets_one(folder: Path, url: str) -> None:
    """The shipper was killed between the two."""
    recordings.write(folder / "t.jsonl", recordings.CLEAN)
    (first,) = Shipper(str(folder), url).ship().files
    (Path(url.removeprefix("file://").replace("%20", " ")) / manifest.key_of(first.chain, 1)).unlink()
    (again,) = Shipper(str(folder), url).ship().files
    assert (again.key, again.number, again.packed_sha256) == (first.key, 1, first.packed_sha256)


def test_an_object_with_different_content_is_never_replaced(
    mcpproxy: Mcpproxy, folder: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings.write(folder / "t.jsonl", recordings.CLEAN)
    (first,) = Shipper(str(folder), url).ship().files
    place = Path(url.removeprefix("file://").replace("%20", " "))
    (place / manifest.key_of(first.chain, 1)).unlink()
    recordings.write(folder / "t.jsonl", recordings.FAULTY)  # of the same process, at the same time
    ran = mcpproxy("ship", str(folder), url)
    assert ran.code == 2
    assert "has different content; it is not changed" in ran.err
    monkeypatch.setattr(ship, "LARGEST_FILE_BYTES", 8)
    assert "has different content" in Shipper(str(folder), url).ship().faults["t.jsonl"]


def test_a_file_in_the_middle_that_was_never_shipped_is_missing(
    mcpproxy: Mcpproxy, folder: Path, url: str
) -> None:
    header = json.loads(recordings.HEADER)
    tally = {"frames": {"client": 0, "server": 0}, "findings": {"error": 0, "warning": 0, "info": 0}}
    for number in (1, 2, 3):
        name = f"t.{number}.jsonl" if number > 1 else "t.jsonl"
        before = f"t.{number - 1}.jsonl" if number > 2 else "t.jsonl"
        first = recordings.HEADER if number == 1 else json.dumps({**header, "continues": before})
        goes_on = {
            "type": "continued",
            "t": number,
            "in": f"t.{number + 1}.jsonl",
            **tally,
            "judge_error": None,
        }
        records = (json.dumps(goes_on, separators=(",", ":")),) if number < 3 else recordings.CLEAN[1:]
        recordings.write(folder / name, (first, *records))
    second = (folder / "t.2.jsonl").rename(folder / "elsewhere")
    assert mcpproxy("ship", str(folder), url).code == 0
    ran = mcpproxy("verify", url)
    assert ran.code == 1
    (fault, *_) = ran.out.splitlines()
    assert fault.startswith("missing   recordings/date=2026-11-21/server=weather/")
    assert fault.endswith("/t.2.jsonl.zst: is not there; t.3.jsonl continues it")
    assert mcpproxy("verify", url, "--grace", "1h").code == 0  # it may be on the way
    second.rename(folder / "t.2.jsonl")
    assert mcpproxy("ship", str(folder), url).code == 0
    ran = mcpproxy("verify", url)
    assert "3 files of 1 recording," in ran.out, ran.out
    assert ran.code == 0


def test_two_recordings_of_one_process_and_moment_are_two(mcpproxy: Mcpproxy, folder: Path, url: str) -> None:
    for name in ("t.jsonl", "a copy.jsonl"):
        recordings.write(folder / name, recordings.CLEAN)
    assert mcpproxy("ship", str(folder), url).code == 0
    assert "2 files of 2 recordings," in mcpproxy("verify", url).out


def test_files_of_one_recording_are_shipped_together_and_read_as_one(
    mcpproxy: Mcpproxy, folder: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "cache"))
    header = json.loads(recordings.HEADER)
    tally = {"frames": {"client": 2, "server": 1}, "findings": {"error": 0, "warning": 0, "info": 0}}
    goes_on = {"type": "continued", "t": 5, "in": "t.2.jsonl", **tally, "judge_error": None}
    recordings.write(folder / "t.jsonl", (*recordings.CLEAN[:4], json.dumps(goes_on, separators=(",", ":"))))
    recordings.write(
        folder / "t.2.jsonl", (json.dumps({**header, "continues": "t.jsonl"}), *recordings.CLEAN[4:])
    )
    done = Shipper(str(folder), url).ship()
    assert sorted((one.part, one.continues, one.ending) for one in done.files) == [
        (1, "", "continued"),
        (2, "t.jsonl", "exited"),
    ]
    assert len({one.recording for one in done.files}) == 1
    ran = mcpproxy("check", url)
    assert (ran.code, ran.out.splitlines()[-1]) == (
        0,
        "no findings in 1 trace, 5 frames, revision 2025-11-25",
    )


@pytest.mark.parametrize("command", ["show", "stats", "list", "check"])
def test_readers_take_a_url_and_a_compressed_file(
    command: str, mcpproxy: Mcpproxy, folder: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "cache"))
    recordings.write(folder / "t.jsonl", recordings.FAULTY)
    (one,) = Shipper(str(folder), url).ship().files
    packed = Path(url.removeprefix("file://").replace("%20", " ")) / one.key
    local = mcpproxy(command, str(folder if command == "list" else folder / "t.jsonl"))
    for named in (url, f"{url}/{one.key}", packed):
        if command == "list" and named == packed:
            continue
        ran = mcpproxy(command, str(named))
        assert ran.code == local.code
        assert len(ran.out.splitlines()) == len(local.out.splitlines())


def test_the_list_of_a_url_has_urls_that_can_be_passed_on(
    mcpproxy: Mcpproxy, folder: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    recordings.write(folder / "t.jsonl", recordings.FAULTY)
    (one,) = Shipper(str(folder), url).ship().files
    (listed,) = json.loads(mcpproxy("list", url, "--json").out)["traces"]
    assert listed["path"] == f"{url}/{one.key}"
    assert listed["path"] in mcpproxy("list", url).out
    assert mcpproxy("show", listed["path"]).code == 0


def test_recordings_in_folders_with_similar_names_are_two(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    for name, records in (("a b", recordings.CLEAN), ("a_b", recordings.FAULTY)):
        (tmp_path / "store" / name).mkdir(parents=True)
        recordings.write(tmp_path / "store" / name / "t.jsonl", records)
    listed = json.loads(mcpproxy("list", f"file://{tmp_path / 'store'}", "--json").out)["traces"]
    assert len({one["path"] for one in listed}) == 2
    assert len({str(one["findings"]) for one in listed}) == 2


def test_a_secret_is_masked_the_same_each_time(folder: Path, url: str) -> None:
    message = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"api_key": SECRET}})
    recordings.write(
        folder / "t.jsonl",
        (*recordings.CLEAN[:-1], recordings.frame(6, "client", message), recordings.close(4, 2)),
    )
    (one,) = Shipper(str(folder), url, masks=True).ship().files
    store = Store(url)
    path = Path(fetch(store, stored_recordings(store.list())[0], str(folder.parent / "fetched")))
    assert SECRET not in path.read_text()
    assert "masked(" in path.read_text()
    assert one.redaction == "secrets"
    place = Path(url.removeprefix("file://").replace("%20", " "))
    (place / manifest.key_of(one.chain, 1)).unlink()
    done = Shipper(str(folder), url, masks=True).ship()
    assert (len(done.files), done.faults) == (1, {})


@pytest.mark.parametrize("is_gone", [True, False], ids=["missing", "longer"])
def test_an_object_that_is_not_what_was_shipped_keeps_only_its_file(
    folder: Path, url: str, is_gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings.write(folder / "t.jsonl", recordings.FAULTY)
    recordings.write(folder / "u.jsonl", recordings.CLEAN)
    shipper = Shipper(str(folder), url, delete_after_s=3600)
    kept = next(each for each in shipper.ship().files if each.name == "t.jsonl")
    object = Path(url.removeprefix("file://").replace("%20", " ")) / kept.key
    if is_gone:
        object.unlink()
    else:
        object.write_bytes(object.read_bytes() + b"x")
    later_s = time.time() + 7200
    monkeypatch.setattr(time, "time", lambda: later_s)
    done = shipper.ship()
    assert (done.deleted, list(done.faults)) == (1, ["t.jsonl"])
    assert "is not what was shipped; see mcpproxy verify" in done.faults["t.jsonl"]


def test_files_are_deleted_when_their_objects_were_read_back(folder: Path, url: str) -> None:
    recordings.write(folder / "t.jsonl", recordings.CLEAN)
    shipper = Shipper(str(folder), url, delete_after_s=3600)
    assert shipper.ship().deleted == 0
    (one,) = manifests(url)
    place = Path(url.removeprefix("file://").replace("%20", " ")) / one.key
    whole = place.read_bytes()
    place.write_bytes(whole[:-1])
    done = Shipper(str(folder), url, delete_after_s=0).ship()
    assert done.deleted == 0
    assert "is not what was shipped" in done.faults["t.jsonl"]
    place.write_bytes(whole)
    assert Shipper(str(folder), url, delete_after_s=0).ship().deleted == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://x", "is not the URL of an object store"),
        ("s3://", "names no bucket"),
        ("s3://key:hunter2@bucket/x", "neither credentials nor parameters"),
        ("s3://bucket/x?token=hunter2", "neither credentials nor parameters"),
        ("file://host/x", "is not the URL of a folder"),
    ],
)
def test_a_url_that_cannot_be_used_is_one_line(mcpproxy: Mcpproxy, folder: Path, url: str, said: str) -> None:
    ran = mcpproxy("ship", str(folder), url)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "hunter2" not in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_reader_does_not_repeat_what_a_url_must_not_have(mcpproxy: Mcpproxy) -> None:
    ran = mcpproxy("check", "s3://key:hunter2@bucket/x")
    assert ran.code == 2
    assert "takes neither credentials nor parameters" in ran.err
    assert "hunter2" not in ran.err


def test_a_file_of_another_program_stays(mcpproxy: Mcpproxy, folder: Path, url: str) -> None:
    (folder / "notes.jsonl").write_text('{"a": 1}\n')
    ran = mcpproxy("ship", str(folder), url)
    assert ran.code == 0
    assert "notes.jsonl: not shipped, it is not a recording of mcpproxy" in ran.err


def test_a_manifest_that_is_gone_does_not_stop_shipping(folder: Path, url: str) -> None:
    place = Path(url.removeprefix("file://").replace("%20", " "))
    for name in ("t.jsonl", "u.jsonl"):
        recordings.write(folder / name, recordings.CLEAN)
    first, _ = Shipper(str(folder), url).ship().files
    (place / manifest.key_of(first.chain, first.number)).write_bytes(b"damaged")
    done = Shipper(str(folder), url).ship()
    assert (done.faults, [one.key for one in done.files]) == ({}, [first.key])
    assert done.files[0].number == 3


def test_a_store_that_cannot_be_reached_is_one_line(
    mcpproxy: Mcpproxy, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("ACCESS_KEY_ID", "k"), ("SECRET_ACCESS_KEY", "hunter2"), ("ALLOW_HTTP", "true")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    ran = mcpproxy("ship", str(folder), "s3://bucket/x")
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "connection refused" in ran.err
    assert "hunter2" not in ran.err


def test_a_file_that_is_still_being_made_waits(mcpproxy: Mcpproxy, folder: Path, url: str) -> None:
    recordings.write(folder / "t.jsonl", recordings.CLEAN[:-1])  # without its last record
    ran = mcpproxy("ship", str(folder), url)
    assert ran.code == 0
    assert "1 recording still being made" in ran.err
    assert list(Store(url).list()) == []


def test_a_bomb_is_unpacked_in_small_steps(folder: Path, url: str) -> None:
    import zstandard

    from mcpproxy.send.fleet.object_contents import LARGEST_FILE_BYTES, decompress_pieces

    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(200 << 20))
    assert (
        max(len(piece) for piece in decompress_pieces([bomb], "bomb", ByteBudget(LARGEST_FILE_BYTES)))
        <= 64 << 20
    )


def test_a_file_that_a_recording_gets_while_it_is_completed_is_shipped_first(folder: Path, url: str) -> None:
    """Then its first file may go, and not before."""
    records = [journals.START, *PINGS, journals.EXIT]
    JournalFolder(folder / "s.jsonl", rotated(records, {"bytes": 2500}))
    done = Shipper(str(folder), url, delete_after_s=0).ship()
    assert (done.running, done.faults) == (0, {})
    assert len(done.files) > 2
    assert list(folder.iterdir()) == []


def test_a_first_file_stays_while_another_cannot_be_shipped(folder: Path, url: str) -> None:
    JournalFolder(folder / "s.jsonl", rotated([journals.START, *PINGS, journals.EXIT], {"bytes": 2500}))
    assert recover(str(folder / "s.jsonl"))
    with lock_file(str(folder / "s.2.jsonl")) as is_locked:
        assert is_locked
        done = Shipper(str(folder), url, delete_after_s=0).ship()
    assert list(done.faults) == ["s.2.jsonl"]
    assert sorted(path.name for path in folder.iterdir()) == ["s.2.jsonl", "s.jsonl"]
    assert Shipper(str(folder), url, delete_after_s=0).ship().faults == {}
    assert list(folder.iterdir()) == []


def test_a_file_shipped_twice_is_a_fault_only_if_the_contents_differ(folder: Path, url: str) -> None:
    recordings.write(folder / "t.jsonl", recordings.CLEAN)
    first, second = (Shipper(str(folder), url, chain=name).ship() for name in ("old", "new"))
    assert (first.adopted, second.adopted) == (set(), {second.files[0].key})
    store = Store(url)
    found = verify(store, now_s=0.0)
    assert (found.faults, found.files, list(found.heads)) == ([], 1, ["new", "old"])
    other = replace(second.files[0], chain="other", sha256="0" * 64)
    store.create(manifest.key_of("other", 1), manifest.encode(other))
    assert [each.kind for each in verify(store, now_s=0.0).faults] == ["doubled"]
