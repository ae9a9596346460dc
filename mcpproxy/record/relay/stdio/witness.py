"""The witness: a child of the relay that tells which signals went to the relay's whole process group.

A signal to a process group (Ctrl-C, ``killpg``, a shell's ``kill %1``) reaches the server, which is in the
relay's group, without the relay. A signal to the relay alone does not. No system tells a receiver which of
the two it was. The witness stays in the relay's group and waits. So a signal that both have received went to
the group, and one that only the relay has received was meant for the relay alone.

*When to ask.* The kernel sends a signal to the members of a group in a loop, so the relay may receive it
before the witness. ``_finish_loops`` waits until such a loop is over. From then on the answer is right: the
witness handles what was sent to it before it returns from the system call that reads the question. Its
handler writes the number into a pipe to the relay (``set_wakeup_fd``), and the answer follows in that pipe.

*Equal signals.* Signals that come close together may be delivered as one, to each process in its own way,
except real-time signals. So real-time signals are counted. Of any other signal, one that the witness has
received stands for all that the relay has received by the time of the answer.

*Killers of trees* (``pgrep -P``, psutil) send a signal to the relay and its descendants one by one, in either
order, and the server is a descendant, too. So a signal that the witness receives alone, within ``TREE_S`` of
the same signal to the relay, counts as one with that signal. Killers by name (``pkill``) must not meet the
witness, because they do not meet the server: on Linux it has another name and command line than the relay.

*Its life.* The witness holds no descriptor of the session, and exits when the pipe of the questions ends,
because the relay is gone. The relay kills it when the server has exited: a host that looks for the group
afterwards must not find it. If somebody else kills it, or it does not answer, the relay forks another
witness. While there is none, every signal is forwarded: twice is better than never.
"""

from __future__ import annotations

import os
import select
import time

from mcpproxy.record.relay.stdio.inheritance import open_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable
    from typing import Final, NoReturn
else:
    import _signal as signal

ANSWER_S: Final = 2.0
"""How long the witness may take to answer, while everything else waits. Only a stopped witness takes longer
than a moment."""

TREE_S: Final = 5.0
"""How much time may pass between the signals that a killer of trees sends to the relay and the witness."""

MOST_ROUNDS: Final = 8
"""How many questions are asked in a row, because more signals come during an answer; all else waits."""

_NOBODY: Final = 0x7FFFFFFF
"""The id of no process: Linux uses none above 2^22."""
_ANSWER: Final = b"\0"
_REAL_TIME: Final[int] = getattr(signal, "SIGRTMIN", 1 << 8)
"""The lowest number of a real-time signal."""


class Witness:
    """A process that receives the signals ``numbers``, too, if they are sent to the group. ``fd`` is readable
    when it has received some.

    The caller must have set a handler for each of the signals, which the fork copies, and must block them.

    Raises:
        OSError: no pipe could be created.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = set(numbers)
        self._questions, self._ask = os.pipe()
        self.fd, self._answers = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._answers, False)
        # Signals that only the relay has received -> until when the witness may receive them, too.
        self._alone: dict[int, float] = {}
        # Signals that only the witness has received -> until when the relay may receive them, too.
        self._ahead: dict[int, float] = {}
        self.pid = 0
        self._fork()

    def compare(self, own: bytes, receive: Callable[[], bytes]) -> list[tuple[int, bool]]:
        """Return the signals that the relay has received, each with whether the group has received it.

        Args:
            own: the numbers that the relay has received, in order.
            receive: returns the numbers that the relay has received since.
        """
        results: list[tuple[int, bool]] = []
        if signal.SIGCHLD in own and self.pid and os.waitpid(self.pid, os.WNOHANG)[0]:
            self.pid = 0
            self._fork()
        heard = self._read_heard()
        rounds = 0
        while rounds < MOST_ROUNDS and (heard or any(number != signal.SIGCHLD for number in own)):
            rounds += 1
            _finish_loops()
            heard += self._ask_witness()
            _finish_loops()  # so that the relay has received all that the witness has heard from the group
            late = receive()
            own = self._match(own, late, heard, results)
            heard = b""
        results.extend((number, False) for number in own)
        return results

    def end(self) -> None:
        """Kill the witness. No other is forked."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def _match(self, own: bytes, late: bytes, heard: bytes, results: list[tuple[int, bool]]) -> bytes:
        """Add the signals that are decided to ``results``. Return those of ``late`` that are undecided,
        because they came after the answer."""
        now_s = time.monotonic()
        left = list(heard)
        matched: set[int] = set()
        undecided: list[int] = []
        for position, number in enumerate(own + late):
            if number in left:
                matched.add(number)
                if number >= _REAL_TIME:
                    left.remove(number)
                results.append((number, True))
            elif self._ahead.pop(number, 0) > now_s:
                results.append((number, True))
            elif position >= len(own):
                undecided.append(number)
            else:
                if number != signal.SIGCHLD:
                    self._alone[number] = now_s + TREE_S
                results.append((number, False))
        for number in set(left) - matched:
            if self._alone.pop(number, 0) <= now_s:
                self._ahead[number] = now_s + TREE_S
        return bytes(undecided)

    def _ask_witness(self) -> bytes:
        """Ask the witness. Return the numbers that it has received since it was last asked."""
        if not self.pid:
            return b""
        os.write(self._ask, b"?")
        heard = b""
        ready = select.poll()
        ready.register(self.fd, select.POLLIN)
        end_s = time.monotonic() + ANSWER_S
        while _ANSWER not in heard:
            if not ready.poll(max(0.0, end_s - time.monotonic()) * 1000):  # it is stopped, or was killed
                self.end()
                heard += self._read_heard()
                self._fork()
                break
            heard += self._read_heard()
        return heard.replace(_ANSWER, b"")

    def _read_heard(self) -> bytes:
        try:
            return os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return b""

    def _fork(self) -> None:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _become_witness(self._questions, self._answers, self._numbers)
        except OSError:  # no more processes for this user
            self.pid = 0
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _finish_loops() -> None:
    """Wait until all signals to a group that this process has received are with the other members, too.

    On Linux the loop over the members holds ``tasklist_lock`` for reading, and setpgid takes it for writing
    before it looks for the process: a call for one that cannot exist waits, and changes nothing. A group of
    Linux has its newest member first, so the witness is seldom behind; but ``kill -1`` begins with the oldest
    process. macOS holds no lock; there the witness follows the relay directly, and asking it takes longer
    than the step of the loop from one to the other."""
    try:
        os.setpgid(_NOBODY, 1)
    except OSError:
        pass


def _become_witness(questions: int, answers: int, numbers: set[int]) -> NoReturn:
    """Be the witness in the forked process: answer questions until the relay is gone, then exit."""
    try:
        signal.set_wakeup_fd(answers, warn_on_full_buffer=False)
        # All other signals are blocked: none of them may end or stop the witness.
        others = signal.valid_signals() - numbers | {signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_SETMASK, others)
        for fd in (0, 1, 2, *open_descriptors()):
            if fd not in (questions, answers):
                os.closerange(fd, fd + 1)  # ignores the descriptor with which the others were listed
        _rename_process()
        while os.read(questions, 1):
            os.write(answers, _ANSWER)
    finally:
        os._exit(0)


def _rename_process() -> None:
    """Take a name and a command line that no search for the relay finds, where there is ``/proc``."""
    name = b"signal-witness"
    try:
        with open("/proc/self/comm", "wb", buffering=0) as comm:
            comm.write(name)
        with open("/proc/self/stat", "rb", buffering=0) as stat:
            begin, end = map(int, stat.read().rpartition(b")")[2].split()[45:47])
        # The last byte stays 0, which says that the text is not longer than the arguments were.
        text = b"%s of %d" % (name, os.getppid())
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(begin)
            memory.write(text[: end - begin - 1].ljust(end - begin, b"\0"))
    except OSError:
        pass
