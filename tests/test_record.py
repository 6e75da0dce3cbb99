"""The run file: whatever happens to it, no piece is lost or duplicated."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.errors import StopwavError
from stopwav.piece import Piece
from stopwav.record import Header, Record, now
from stopwav.run_paths import new_path, paths_in


def header(**spec: object) -> Header:
    return Header(stopwav="0.0", study="latency", started=now(), spec=spec)


def piece(number: int, **data: object) -> Piece:
    return Piece(key=["stream", number], status="ok", data=data)


def write(path: Path, count: int = 3) -> None:
    with Record.create(path, header()) as record:
        for number in range(count):
            record.append(piece(number, text="x" * number))
        record.finish()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "run.jsonl"
    write(path)
    record = Record.read(path)
    assert record.complete
    assert [p.data["text"] for p in record.pieces] == ["", "x", "xx"]
    assert ("stream", 1) in record
    assert ("stream", 3) not in record


def test_a_file_cut_at_any_byte_resumes_with_the_whole_lines(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    write(whole)
    content = whole.read_bytes()
    first_line = content.index(b"\n") + 1
    for length in range(first_line, len(content)):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(content[:length])
        with Record.resume(path) as record:
            done = len(record.pieces)
            assert done == max(0, min(3, content[:length].count(b"\n") - 1))
            for number in range(done, 3):
                record.append(piece(number, text="x" * number))
            record.finish()
        again = Record.read(path)
        assert [p.key[1] for p in again.pieces] == [0, 1, 2]
        assert again.complete
        path.unlink()


def test_a_piece_cannot_be_added_twice(tmp_path: Path) -> None:
    with Record.create(tmp_path / "r.jsonl", header()) as record:
        record.append(piece(1))
        with pytest.raises(StopwavError, match="exists already"):
            record.append(piece(1))


def test_a_second_writer_is_rejected_and_the_lock_ends_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    record = Record.create(path, header())
    with pytest.raises(StopwavError, match="another stopwav process"):
        Record.resume(path)
    record.close()
    Record.resume(path).close()


def test_a_run_is_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "r.jsonl")
    with pytest.raises(StopwavError, match="exists already"):
        Record.create(tmp_path / "r.jsonl", header())


def test_a_piece_is_on_disk_before_append_returns(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    code = (
        "import os, sys; from pathlib import Path\n"
        "from stopwav.record import *\n"
        "r = Record.create(Path(sys.argv[1]), Header(stopwav='0', study='s', started='', spec={}))\n"
        "r.append(Piece(key=[1], status='ok'))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, path]).returncode == -9
    assert len(Record.read(path).pieces) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no complete line"),
        (b'{"kind":"header"', "no complete line"),
        (b"not a run\n", "the first line is not a run header"),
        (b'{"kind":"header","format":99,"stopwav":"9.0","study":"s","started":"","spec":{}}\n', "upgrade stopwav"),
    ],
)
def test_a_file_that_is_not_a_run_is_rejected_with_its_name(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(content)
    with pytest.raises(StopwavError, match=reason) as error:
        Record.read(path)
    assert str(path) in str(error.value)


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write(path)
    lines = path.read_bytes().split(b"\n")
    for damage in (b"{{{", b"[1, 2]", b'{"kind":"piece"}'):
        path.write_bytes(b"\n".join([*lines[:2], damage, *lines[2:]]))
        with pytest.raises(StopwavError, match=r"r\.jsonl:3: not a piece"):
            Record.read(path)


def test_a_run_that_is_not_writable_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(StopwavError, match=rf"cannot resume {tmp_path}: it is not writable \(Is a directory\)"):
        Record.resume(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StopwavError, match=r"gone\.jsonl"):
        Record.read(tmp_path / "gone.jsonl")


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_run_whose_file_is_gone_is_an_error_at_the_next_write(how: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Record.create(path, header()) as record:
        record.append(piece(1))
        path.rename(tmp_path / "elsewhere.jsonl")
        if how == "deleted":
            (tmp_path / "elsewhere.jsonl").unlink()
        if how == "replaced":
            path.write_text("something else")
        for write in (lambda: record.append(piece(2)), record.finish):
            with pytest.raises(StopwavError, match=r"r\.jsonl: was deleted, moved or replaced during the run; put it"):
                write()
        assert not record.complete


def test_names_of_new_runs_do_not_collide(tmp_path: Path) -> None:
    paths = set()
    for _ in range(5):
        path = new_path(tmp_path, "latency")
        assert path not in paths
        paths.add(path)
        path.touch()


def test_files_named_like_runs_of_a_study_are_listed_newest_first(tmp_path: Path) -> None:
    for index, name in enumerate(["latency-a", "latency-b", "grid-c"]):
        write(tmp_path / f"{name}.jsonl")
        os.utime(tmp_path / f"{name}.jsonl", (index, index))
    (tmp_path / "latency-junk.json").write_text("junk")
    assert [path.stem for path in paths_in(tmp_path, "latency")] == ["latency-b", "latency-a"]


@settings(max_examples=30)  # each writes to disk
@given(text=st.text(), number=st.floats(allow_nan=False, allow_infinity=False))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, text: str, number: float) -> None:
    path = tmp_path_factory.mktemp("r") / "r.jsonl"
    with Record.create(path, header(name=text)) as record:
        record.append(Piece(key=["stream", text], status="error", message=text, data={"n": number, "t": text}))
    read = Record.read(path)
    assert read.pieces[0].message == text
    assert read.pieces[0].data == {"n": number, "t": text}
    assert len(path.read_bytes().splitlines()) == 2


def test_a_lone_surrogate_from_an_engine_survives(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Record.create(path, header()) as record:
        record.append(piece(1, text="\ud800 broken"))
    assert json.loads(path.read_text().splitlines()[1])["data"]["text"] == "\ud800 broken"
    assert Record.read(path).pieces[0].data["text"] == "\ud800 broken"


@pytest.mark.parametrize("folder", ["a-file", "a-file/below", "x" * 300])
def test_a_folder_that_cannot_be_used_is_an_error_in_one_line(folder: str, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("kept")
    with pytest.raises(StopwavError, match=r"cannot create the run file .*choose another folder with --save"):
        Record.create(tmp_path / folder / "run.jsonl", header())
    assert (tmp_path / "a-file").read_text() == "kept"


def test_a_full_disk_loses_no_measurement(tmp_path: Path) -> None:
    script = """
import resource, sys
from pathlib import Path
from stopwav.errors import StopwavError
from stopwav.piece import Piece
from stopwav.record import Header, Record, now
path = Path(sys.argv[1])
with Record.create(path, Header(stopwav="0.0", study="latency", started=now(), spec={})) as record:
    record.append(Piece(key=["stream", 0], status="ok", data={}))
    size = path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, size + 10))
    try:
        record.append(Piece(key=["stream", 1], status="ok", data={}))
    except StopwavError as error:
        print(error)
"""
    path = tmp_path / "run.jsonl"
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert "earlier measurements are kept: free some space, then continue with --resume" in done.stdout
    with Record.resume(path) as record:
        assert [kept.key for kept in record.pieces] == [["stream", 0]]
        record.append(piece(1))
    assert Record.read(path).previous_count == 2


def test_a_deeply_nested_line_is_an_error_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path)
    path.write_text(path.read_text() + "[" * 100_000 + "\n")
    with pytest.raises(StopwavError, match="not a piece of a run"):
        Record.read(path)
    path.write_text("[" * 100_000 + "\n")
    with pytest.raises(StopwavError, match="not a stopwav run file"):
        Record.read(path)


def test_opening_a_run_reads_no_observations_and_a_broken_one_is_named_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path)
    lines = path.read_text().splitlines()
    number = next(index for index, line in enumerate(lines) if '"piece"' in line)
    lines[number] = lines[number].partition(',"data":')[0] + ',"data":{"broken"}}'
    path.write_text("\n".join(lines) + "\n")
    piece = Record.read(path).pieces[0]
    with pytest.raises(StopwavError, match=rf"run.jsonl:{number + 1}: not a piece of a run"):
        piece.data  # noqa: B018
    with pytest.raises(StopwavError, match=rf"run.jsonl:{number + 1}: not a piece of a run"):
        Record.resume(path)


def test_a_run_that_is_written_keeps_no_observations_in_memory(tmp_path: Path) -> None:
    with Record.create(tmp_path / "run.jsonl", header()) as record:
        tracemalloc.start()
        try:
            for index in range(50):
                record.append(Piece(["stream", index], "ok", data={"text": "x" * 100_000}))
            kept_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept_bytes < 200_000
    assert [len(piece.data["text"]) for piece in record.pieces] == [100_000] * 50
