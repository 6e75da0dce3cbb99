"""Every way a fresh process can end is an outcome, and the next one starts clean."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from stopwav.errors import StopwavError
from stopwav.measure.machine import oom_kill_count
from stopwav.measure.process import LAST_WORDS_BYTES, FreshProcess


class Patient:
    """Ends its process in the requested way."""

    def __init__(self, name: str = "patient") -> None:
        self.name = name

    def who(self) -> tuple[str, int]:
        return self.name, os.getpid()

    def say(self, text: str) -> str:
        print(text, flush=True)
        os.write(1, f"{text} by descriptor\n".encode())
        return text

    def fail(self) -> None:
        raise ValueError("no such thing\nsecond line")

    def refuse(self) -> None:
        raise StopwavError("engine 'x': nothing there; name another")

    def run_out(self) -> None:
        raise MemoryError

    def run_out_natively(self) -> None:
        os.write(2, b"exception: std::bad_alloc\n")
        raise ValueError("unknown error")

    def die(self, number: int) -> None:
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), number)

    def leave(self) -> None:
        os._exit(7)

    def hang(self) -> None:
        time.sleep(1000)

    def spawn_child(self) -> int:
        return subprocess.Popen(["sleep", "1000"]).pid

    def exit_python(self) -> None:
        sys.exit("bye")

    def fork(self, wait: bool) -> str:
        child = os.fork()
        if child and wait:
            os.waitpid(child, 0)  # the copy has come back to the caller and would have answered by now
        return "the original" if child else "the copy"

    def close_connection(self, pieces: bytes = b"") -> None:
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                with contextlib.suppress(OSError):
                    if pieces:
                        os.write(int(name), pieces)
                    else:
                        os.close(int(name))
        time.sleep(1000)

    def unreadable(self) -> object:
        return Unreadable()

    def chatter(self, count: int) -> None:
        for _ in range(count):
            os.write(1, b"x" * 65536)
        os.write(1, b"the end")
        os._exit(7)


class Unreadable:
    """An object that can be sent and not received."""

    def __reduce__(self) -> tuple[object, ...]:
        return int, ("not a number",)


class Undivided:
    """An object that cannot be sent."""

    def __reduce__(self) -> tuple[object, ...]:
        raise ValueError("in one piece")


# Far beyond what anything here takes that does not hang, even on a machine that was suspended meanwhile.
LIMIT_S = 1e6


def wait_for_the_end(pid: int) -> None:
    """Return once a process is gone or a zombie."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for _ in range(10_000):  # counted, not timed: the machine may be suspended meanwhile
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
            time.sleep(0.01)
        pytest.fail("the process did not end")


@pytest.fixture
def patient():  # type: ignore[no-untyped-def]
    with FreshProcess(Patient, "p") as process:
        assert process.start(LIMIT_S).ok
        yield process


def ask(process: FreshProcess, method: str, *arguments: object, limit_s: float = LIMIT_S):  # type: ignore[no-untyped-def]
    return process.call(method, *arguments, time_limit_s=limit_s)


def test_it_is_another_process_and_keeps_its_object(patient: FreshProcess) -> None:
    name, pid = ask(patient, "who").value
    assert (name, ask(patient, "who").value[1]) == ("p", pid)
    assert pid != os.getpid()


def test_what_the_code_prints_does_not_break_the_protocol(patient: FreshProcess, capfd) -> None:  # type: ignore[no-untyped-def]
    assert ask(patient, "say", "hello").value == "hello"
    assert ask(patient, "who").ok
    assert capfd.readouterr().out == ""


def test_an_exception_is_one_line_with_its_place_and_the_process_lives_on(patient: FreshProcess) -> None:
    outcome = ask(patient, "fail")
    assert outcome.status == "error"
    assert outcome.message.startswith("ValueError: no such thing second line (test_process.py:")
    assert ask(patient, "refuse").message == "engine 'x': nothing there; name another"
    assert ask(patient, "exit_python").status == "error"
    assert ask(patient, "who").ok


def test_running_out_of_memory_is_told_from_other_errors(patient: FreshProcess) -> None:
    assert ask(patient, "run_out").status == "oom"
    assert ask(patient, "run_out").message.startswith("MemoryError (test_process.py:")
    assert ask(patient, "fail").status == "error"
    assert ask(patient, "run_out_natively").status == "oom"


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_a_signal_is_named_and_the_last_words_kept(patient: FreshProcess, number: signal.Signals) -> None:
    outcome = ask(patient, "die", number)
    assert (outcome.status, outcome.message) == ("crashed", f"crashed ({number.name})")
    assert "last words" in outcome.last_words
    assert ask(patient, "who").status == "crashed"


def test_leaving_without_a_word_is_a_crash(patient: FreshProcess) -> None:
    assert ask(patient, "leave").message == "exited with code 7"


def test_a_hang_is_killed_at_its_limit(patient: FreshProcess) -> None:
    pid = ask(patient, "who").value[1]
    outcome = ask(patient, "hang", limit_s=0.3)
    assert (outcome.status, outcome.message) == ("timeout", "no answer within 0.3 s; killed")
    assert not psutil.pid_exists(pid)


def test_what_the_code_started_ends_with_it(patient: FreshProcess) -> None:
    child = ask(patient, "spawn_child").value
    patient.close()
    wait_for_the_end(child)


def test_a_constructor_that_fails_is_an_outcome() -> None:
    with FreshProcess(Patient, "too", "many") as process:
        assert process.start(LIMIT_S).status == "error"


def test_lambdas_and_local_classes_reach_the_process() -> None:
    secret = object.__name__

    class Local:
        def answer(self) -> str:
            return secret

    with FreshProcess(lambda: Local()) as process:
        assert process.start(LIMIT_S).ok
        assert ask(process, "answer").value == secret


@pytest.mark.skipif(sys.platform != "linux", reason="the parent's death is signalled on Linux only")
def test_a_worker_does_not_outlive_a_parent_killed_by_force(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import time\n"
        "from stopwav.measure.process import FreshProcess\n"
        "class Sleeper:\n"
        "    def pid(self):\n"
        "        import os\n"
        "        return os.getpid()\n"
        "    def sleep(self):\n"
        "        time.sleep(1000)\n"
        "process = FreshProcess(Sleeper)\n"
        "process.start(1e6)\n"
        "print(process.call('pid', time_limit_s=1e6).value, flush=True)\n"
        "process.call('sleep', time_limit_s=1000)\n"
    )
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    wait_for_the_end(worker)


def test_a_limit_of_years_is_no_error() -> None:
    with FreshProcess(Patient) as patient:
        assert patient.start(1e9).ok
        assert patient.call("who", time_limit_s=1e300).ok


def test_a_copy_that_the_code_forked_does_not_answer_in_its_place(patient: FreshProcess) -> None:
    for wait in (True, False):
        assert ask(patient, "fork", wait).value == "the original"
        assert ask(patient, "who").value[0] == "p"


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are listed in /proc")
def test_a_worker_that_closes_its_connection_and_sleeps_is_killed(
    patient: FreshProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["stopwav.measure.process"], "FAREWELL_S", 0.2)
    outcome = ask(patient, "close_connection")
    assert (outcome.status, outcome.message) == ("crashed", "closed or broke its connection to stopwav; killed")
    assert not patient.alive


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are listed in /proc")
@pytest.mark.parametrize("pieces", [b"\x00\x00\x00\x09half", b"\x00\x00\x00\x01x"], ids=["half", "garbage"])
def test_half_an_answer_or_garbage_is_a_crash(pieces: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["stopwav.measure.interpreter"], "STALL_S", 1)
    monkeypatch.setattr(sys.modules["stopwav.measure.process"], "FAREWELL_S", 0.2)
    with FreshProcess(Patient) as process:
        assert process.start(LIMIT_S).ok
        assert ask(process, "close_connection", pieces).status == "crashed"


def test_a_signal_without_a_name_has_its_number(patient: FreshProcess) -> None:
    assert ask(patient, "die", signal.SIGRTMIN + 1).message == f"crashed (signal {signal.SIGRTMIN + 1})"


def test_an_answer_that_cannot_be_read_is_an_error_of_its_own(patient: FreshProcess) -> None:
    outcome = ask(patient, "unreadable")
    assert outcome.status == "error"
    assert outcome.message.startswith("the answer cannot be read outside its process: ValueError: invalid literal")
    assert ask(patient, "who").ok


def test_of_a_flood_of_output_only_the_end_is_kept(patient: FreshProcess) -> None:
    outcome = ask(patient, "chatter", 400)
    assert outcome.last_words.endswith("xthe end")
    assert len(outcome.last_words) == LAST_WORDS_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="the parent's death is signalled on Linux only")
def test_a_parent_killed_before_its_worker_runs_leaves_no_orphan(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, signal\n"
        "from stopwav.measure import interpreter\n"
        "spawned = interpreter.spawn(interpreter.connected_pipe()[1].fileno())\n"
        "print(spawned.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    parent = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True)
    wait_for_the_end(int(parent.stdout))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed in /proc")
def test_what_the_engine_started_ends_with_a_parent_killed_by_force(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import subprocess, sys\n"
        "from stopwav.measure.process import FreshProcess\n"
        "class Engine:\n"
        "    def start(self):\n"
        "        return subprocess.Popen(['sleep', '1000']).pid\n"
        "process = FreshProcess(Engine)\n"
        "process.start(1e6)\n"
        "print(process.call('start', time_limit_s=1e6).value, flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipe = subprocess.PIPE
    parent = subprocess.Popen([sys.executable, script], stdin=pipe, stdout=pipe, text=True)
    assert parent.stdout is not None
    started = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    wait_for_the_end(started)


def test_a_request_that_cannot_be_read_is_answered_at_once(patient: FreshProcess) -> None:
    outcome = ask(patient, "who", Unreadable())
    assert outcome.status == "error"
    assert outcome.message.startswith("ValueError: invalid literal")
    assert ask(patient, "who").ok
    with FreshProcess(Patient, Unreadable()) as process:
        assert process.start(LIMIT_S).status == "error"


def test_what_cannot_be_taken_apart_is_an_error_in_one_line(patient: FreshProcess) -> None:
    with pytest.raises(StopwavError, match="cannot send the workload to a new process: ValueError: in one piece"):
        ask(patient, "who", Undivided())


def test_no_thread_for_a_process_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*arguments: object, **named: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(sys.modules["stopwav.measure.process"], "Thread", no_thread)
    with FreshProcess(Patient) as process:
        outcome = process.start(LIMIT_S)
        assert (outcome.status, outcome.message) == ("crashed", "cannot start a process (can't start new thread)")
        assert not process.alive


@pytest.mark.parametrize(("counts", "status"), [([3, 4], "oom"), ([3, 3], "crashed")], ids=["counted", "not counted"])
def test_a_kill_for_memory_is_one_that_the_group_counts(
    counts: list[int], status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(counts)
    monkeypatch.setattr(sys.modules["stopwav.measure.machine"], "oom_kill_count", lambda: next(left))
    with FreshProcess(Patient) as process:
        assert process.start(LIMIT_S).ok
        assert ask(process, "die", signal.SIGKILL).status == status


@pytest.mark.parametrize(
    ("group", "file", "content"),
    [
        ("0::/a/b", "a/b/memory.events", "oom 3\noom_kill 2\noom_group_kill 0"),
        ("5:memory:/a/b", "memory/a/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2"),
    ],
    ids=["version 2", "version 1"],
)
def test_memory_kills_are_counted_in_the_group_of_the_process(
    group: str, file: str, content: str, tmp_path: Path
) -> None:
    mount = tmp_path / "sys/fs/cgroup"
    (mount / file).parent.mkdir(parents=True)
    base = mount / "memory" if "memory:" in group else mount
    (base / "cgroup.procs").touch()
    (base / Path(file).name).write_text("oom_kill 40")  # of all groups: not ours to count
    (mount / file).write_text(content)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{group}\n")
    assert oom_kill_count(tmp_path) == 2
    assert oom_kill_count(tmp_path / "nowhere") == 0
