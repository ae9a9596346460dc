"""Rules of one's own: a folder of tables and checks beside the built-in ones."""

import re
from pathlib import Path

import pytest

from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.ruleset.ruleset import CustomRuleError
from tests import documents
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy, mcpproxy, state_dir
from tests.cli.recordings import CLEAN

__all__ = ["mcpproxy", "state_dir"]


TABLE = """
[HOUSE-001]
name = "nameless-server"
summary = "A server presents itself without a title."
why = "The host shows the name, which is for programs."
example = '''
client: {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
'''
instead = "Give a title."

[HOUSE-001.requirements.H-001]
text = "A server has a title."
blame = "server"
keyword = "contract"
source = "https://example.com/house-rules#titles"
"""

CHECK = """
from mcpproxy.custom_rules import Check, RuleFamily, Violation, member


def untitled(context, history):
    if member(context.message.result, "serverInfo", "title") is None:
        yield Violation("HOUSE-001", "H-001", "server has no title", pointer="/result/serverInfo")


FAMILY = RuleFamily(checks=(Check(("HOUSE-001",), untitled, ("response",), ("initialize",)),))
"""


EMPTY = "from mcpproxy.custom_rules import RuleFamily\nFAMILY = RuleFamily()"


def folder(where: Path, table: str = TABLE, check: str = CHECK) -> str:
    (where / "house").mkdir()
    (where / "house" / "house.toml").write_text(table)
    (where / "house" / "house.py").write_text(check)
    return str(where / "house")


def test_a_custom_rule_is_reported_with_the_others(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recordings.write(tmp_path / "t.jsonl", CLEAN)
    checked = mcpproxy("check", trace, "--rules", folder(tmp_path))
    assert checked.code == 1
    assert checked.out.startswith(f"{trace}:3: error HOUSE-001 frame 2: server has no title\n")
    assert "https://example.com/house-rules#titles" in checked.out
    assert mcpproxy("check", trace).code == 0


def test_its_data_may_name_a_host_of_its_own(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recordings.write(tmp_path / "t.jsonl", CLEAN)
    check = CHECK.replace('Info")', 'Info", data={"host": "example.com"})')
    assert "data=" in check
    checked = mcpproxy("check", trace, "--rules", folder(tmp_path, check=check))
    assert checked.out.startswith(f"{trace}:3: error HOUSE-001 frame 2: server has no title\n")


def test_it_can_be_selected_and_ignored_by_name(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace, house = recordings.write(tmp_path / "t.jsonl", CLEAN), folder(tmp_path)
    assert mcpproxy("check", trace, "--rules", house, "--select", "nameless-server").code == 1
    assert mcpproxy("check", trace, "--rules", house, "--ignore", "HOUSE").code == 0


@pytest.mark.parametrize(
    ("table", "check", "said"),
    [
        (TABLE, CHECK.replace("FAMILY =", "TABLE ="), r"house\.py: it has no FAMILY; "),
        (TABLE, "import nowhere", r"house\.py: it cannot be imported: ModuleNotFoundError"),
        (TABLE.replace("HOUSE-001", "HOUSE-002"), CHECK, r"HOUSE-001: a check reports it, but no table"),
        (
            TABLE,
            "from mcpproxy.custom_rules import RuleFamily\nFAMILY = RuleFamily()",
            r"HOUSE-001: no check reports",
        ),
        (TABLE.replace("HOUSE-001", "PROTO-001"), CHECK, r"house: there is a rule PROTO-001 already"),
        (TABLE.replace("contract", "OUGHT"), CHECK, r"HOUSE-001 H-001: keyword is one of .*, not 'OUGHT'"),
        (TABLE + "[", CHECK, r"house\.toml: not readable as TOML"),
        (TABLE, CHECK.replace("H-001", "H-002"), r"house\.py:5: it reported HOUSE-001 H-002"),
        (
            TABLE,
            CHECK.replace("member(context", "member(nothing"),
            r"house\.py:5: the check failed: NameError",
        ),
    ],
)
def test_an_error_in_a_custom_rule_is_one_line(
    mcpproxy: Mcpproxy, tmp_path: Path, table: str, check: str, said: str
) -> None:
    trace = recordings.write(tmp_path / "t.jsonl", CLEAN)
    checked = mcpproxy("check", trace, "--rules", folder(tmp_path, table, check))
    assert checked.code == 2
    assert re.search(said, checked.err)
    assert len(checked.err.splitlines()) == 1


def test_a_folder_without_rules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CustomRuleError, match="no rule table") as refused:
        ruleset.load([tmp_path])
    example = str(refused.value).rpartition(" in ")[2]
    assert "Rules of your own" in Path(example).read_text(encoding="utf-8")
    with pytest.raises(CustomRuleError, match="no such folder"):
        ruleset.load([tmp_path / "nowhere"])


def test_two_files_of_a_folder_cannot_describe_the_same_rule(tmp_path: Path) -> None:
    house = Path(folder(tmp_path))
    (house / "more.toml").write_text(TABLE)
    with pytest.raises(CustomRuleError, match=r"more\.toml: there is a rule HOUSE-001 already"):
        ruleset.load([house])


def test_the_example_of_the_documents_works(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    table, check = documents.file("house/house.toml"), documents.file("house/house.py")
    untidy = (
        '{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"Add Numbers","inputSchema":{"type":"object"}}]}}'
    )
    trace = recordings.write(
        tmp_path / "t.jsonl", tuple(record.replace(recordings.NO_TOOLS, untidy) for record in CLEAN)
    )
    checked = mcpproxy("check", trace, "--select", "HOUSE", "--rules", folder(tmp_path, table, check))
    assert checked.code == 1, checked.err
    assert "HOUSE-001" in checked.out
