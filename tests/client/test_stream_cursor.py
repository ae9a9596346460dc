"""Where, after how long and how often a stream is resumed."""

from mcpproxy.peers.client.stream_cursor import LONGEST_RETRY_S, MOST_IN_VAIN, RETRY_S, StreamCursor


def test_a_stream_without_ids_is_not_resumed() -> None:
    cursor = StreamCursor()
    cursor.note_event(None, 5)
    assert not cursor.can_resume
    assert cursor.headers == []


def test_a_stream_is_resumed_behind_its_last_id() -> None:
    cursor = StreamCursor()
    cursor.note_event("1", None)
    cursor.note_event("2", None)
    cursor.note_event(None, None)
    assert cursor.can_resume
    assert cursor.headers == [("Last-Event-ID", "2")]


def test_the_server_says_how_long_to_wait() -> None:
    cursor = StreamCursor()
    assert cursor.begin_attempt() == RETRY_S
    cursor.note_event("1", 12_500)
    assert cursor.begin_attempt() == 12.5
    cursor.note_event("1", 86_400_000)
    assert cursor.begin_attempt() == LONGEST_RETRY_S


def test_attempts_in_vain_are_counted_from_the_last_event() -> None:
    cursor = StreamCursor()
    cursor.note_event("1", 10)
    for _ in range(MOST_IN_VAIN - 1):
        assert cursor.begin_attempt() == 0.01
    assert cursor.can_resume
    cursor.note_event("2", None)
    for _ in range(MOST_IN_VAIN):
        assert cursor.can_resume
        cursor.begin_attempt()
    assert not cursor.can_resume


def test_the_stream_of_a_session_is_opened_again_ever_later() -> None:
    cursor = StreamCursor()
    waits = [cursor.begin_attempt(endless=True) for _ in range(7)]
    assert waits == [1, 2, 4, 8, 16, LONGEST_RETRY_S, LONGEST_RETRY_S]
    cursor.note_event("1", 2_000)
    assert [cursor.begin_attempt(endless=True) for _ in range(2)] == [2, 4]
