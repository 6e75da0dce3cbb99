"""A long list in a header is kept as it stands in the file, and read when it is asked for."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav import json_rows
from stopwav.json_rows import JsonRows, cut_out, put_in, to_line
from stopwav.record import Header, Record, read_header

TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from('"\\{}[],:\ud800'), max_size=12)
ROW = st.dictionaries(TEXT, TEXT | st.floats(allow_nan=False, allow_infinity=False) | st.none(), max_size=3)


@pytest.fixture(autouse=True)
def long_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "LONG_BYTES", 0)


@given(st.lists(ROW, max_size=5), TEXT)
def test_rows_are_cut_out_and_put_back(rows: list[dict[str, Any]], name: str) -> None:
    line = to_line({"kind": "header", "corpus": {"name": name, "utterances": rows, "digest": name}})
    parts = cut_out(line, "utterances")
    if not rows:
        assert parts is None
        return
    assert parts is not None
    rest, cut = parts
    assert json.loads(rest)["corpus"] == {"name": name, "utterances": [], "digest": name}
    assert (list(cut), len(cut), cut[0], cut[-1], cut[1:]) == (rows, len(rows), rows[0], rows[-1], rows[1:])
    assert put_in(rest, "utterances", cut) == line


@pytest.mark.parametrize(
    "line",
    [
        b'{"utterances":[1,2]}',
        b'{"utterances":[{"a":1},2]}',
        b'{"utterances":[{"a":1},]}',
        b'{"utterances":[{"a":1} ]}',
        b'{"utterances":[{"a":1},{"b":2}',
        b'{"utterances":[{"a":1',
        b'{"utterances":[',
        b'{"utterances":[{"a":1}],"x":{"utterances":[{"a":1}]}}',
        b'{"utterances": [{"a":1}]}',
        b'{"x":1}',
        '{"utterances":[{"a":"\u00e4"}]}'.encode(),
        b'{"utterances":[' + b'{"a":' * 100_000,
    ],
)
def test_what_stopwav_does_not_write_so_is_left_as_it_is(line: bytes) -> None:
    assert cut_out(line, "utterances") is None


def test_a_header_has_the_same_utterances_whether_they_are_cut_out_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    utterances = [
        {"id": f"u{number}\ud800", "text": '"],[{', "words": [["a", 0.1, 0.30000000000000004]]} for number in (1, 2)
    ]
    corpus: dict[str, Any] = {"name": "c", "utterances": utterances, "inputs": ["u1"]}
    header = Header(stopwav="0", study="latency", started="", spec={}, corpus=corpus)
    cut = header.model_copy(update={"corpus": {**corpus, "utterances": json_rows.json_rows(utterances)}})
    for number, one in enumerate((header, cut)):
        Record.create(tmp_path / f"{number}.jsonl", one).close()
    assert (tmp_path / "0.jsonl").read_bytes() == (tmp_path / "1.jsonl").read_bytes()
    read = read_header(tmp_path / "0.jsonl").corpus
    assert isinstance(read["utterances"], JsonRows)
    assert list(read["utterances"]) == utterances
    assert read["inputs"] == ["u1"]
    monkeypatch.setattr(json_rows, "LONG_BYTES", 10**9)
    assert read_header(tmp_path / "0.jsonl").corpus["utterances"] == utterances
