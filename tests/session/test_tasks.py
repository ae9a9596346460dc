"""What is remembered of tasks and subscriptions: apart from each other, and not without end."""

from mcpproxy.judge.session import extension_tasks, subscriptions, task_table
from mcpproxy.judge.session.extension_tasks import ExtensionTasks
from mcpproxy.judge.session.history import SentRequest
from mcpproxy.judge.session.subscriptions import Subscription, Subscriptions
from mcpproxy.judge.session.task_table import Task, Tasks, is_later
from mcpproxy.protocol.task_lifecycle import TaskState, parse_time


def asked(id: int | str, seq: int = 1) -> SentRequest:
    return SentRequest(seq, "client", id, "subscriptions/listen", {}, 0, ("2026-07-28",), True)


def test_each_peer_has_tasks_of_its_own() -> None:
    known = Tasks()
    known.add("server", Task("t", state=TaskState.WORKING))
    known.add("client", Task("t", state=TaskState.FAILED))
    known.add("client", Task("u"))
    assert [task.id for task in known.open("client")] == ["u"]
    assert [task.id for task in known.open("server")] == ["t"]
    assert known.get("server", 7) is None


def test_the_oldest_tasks_are_forgotten() -> None:
    known = Tasks()
    for number in range(task_table.MAX_REMEMBERED + 1):
        known.add("server", Task(str(number)))
    assert len(known.by_id) == task_table.MAX_REMEMBERED
    assert known.get("server", "0") is None
    assert known.get("server", "1") is not None


def test_a_report_is_later_by_its_request_or_its_timestamp() -> None:
    early, late = parse_time("2025-11-25T10:00:00Z"), parse_time("2025-11-25T10:00:01Z")
    assert is_later(asked(1, seq=5), None, 4, late)
    assert is_later(None, late, 4, early)
    assert not is_later(asked(1, seq=3), early, 4, early)
    assert not is_later(None, late, 4, None)
    assert not is_later(None, None, 4, early)


def test_a_caller_finds_only_its_own_tasks() -> None:
    known = ExtensionTasks()
    mine = known.get_or_add("server token-1", "t")
    assert known.get_or_add("server token-1", "t") is mine
    assert known.get_or_add("server token-2", "t") is not mine
    assert known.get("server token-3", "t") is None


def test_the_oldest_tasks_of_an_extension_are_forgotten() -> None:
    known = ExtensionTasks()
    most = extension_tasks.MAX_REMEMBERED
    for number in range(2 * most):
        known.get_or_add("", str(number))
    assert most <= len(known.by_id) <= most * 9 // 8
    assert known.get("", "0") is None


def test_an_id_of_the_other_type_is_another_subscription() -> None:
    known = Subscriptions()
    known.add(Subscription(asked(1), None))
    known.add(Subscription(asked("2"), None))
    assert known.by_id.get("1") is None
    assert known.retyped("1") is known.by_id[1]
    assert known.retyped(2) is known.by_id["2"]
    assert known.retyped(1) is None
    assert known.retyped(None) is None


def test_forgetting_a_subscription_is_recorded() -> None:
    known = Subscriptions()
    for id in range(subscriptions.MAX_REMEMBERED):
        known.add(Subscription(asked(id), None))
    assert not known.forgot_some
    known.add(Subscription(asked("one more"), None))
    assert known.forgot_some
    assert 0 not in known.by_id
