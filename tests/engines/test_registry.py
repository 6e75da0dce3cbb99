"""Engines by name, by file, and from other packages."""

import importlib.metadata
import textwrap
from pathlib import Path

import pytest

from stopwav.engines.registry import available, find_class, is_streaming, make, parse_spec
from stopwav.errors import StopwavError


@pytest.mark.parametrize(
    ("text", "name", "source", "options"),
    [
        ("pocketsphinx", "pocketsphinx", None, {}),
        ("emformer-rnnt,beam=10", "emformer-rnnt", None, {"beam": 10}),
        ("transformers:path/or/hub-id,dtype=float16", "transformers", "path/or/hub-id", {"dtype": "float16"}),
        ("my_engine.py:MyEngine,a=1.5,b=true,c=x", "my_engine.py", "MyEngine", {"a": 1.5, "b": True, "c": "x"}),
        ("x,path=a=b", "x", None, {"path": "a=b"}),
    ],
)
def test_a_spec_is_parsed(text: str, name: str, source: str | None, options: dict[str, object]) -> None:
    spec = parse_spec(text)
    assert (spec.name, spec.source, spec.options) == (name, source, options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no name"),
        (":x", "has no name"),
        ("fake,beam", "'beam' is not key=value"),
        ("pocketsphynx", "did you mean 'pocketsphinx'"),
        ("profile.yaml", "is read by `stopwav grid FILE`, `stopwav run FILE` and in plan files"),
        ("qqq", "`stopwav engines` lists them"),
        ("fake,beam=3", "it takes service_ms"),
        ("pocketsphinx,beam=3", "takes no options"),
        ("nowhere.py:X", "no file 'nowhere.py'"),
    ],
)
def test_an_invalid_spec_is_named(text: str, message: str) -> None:
    with pytest.raises(StopwavError, match=message):
        make(text)


def test_an_engine_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        textwrap.dedent("""
            from stopwav import EngineInfo
            class Mine:
                def __init__(self, beam=1):
                    self.info = EngineInfo(name=f"mine-{beam}", version="1")
                def open(self): ...
        """)
    )
    assert make(f"{path}:Mine,beam=3").info.name == "mine-3"
    with pytest.raises(StopwavError, match="which class"):
        find_class(parse_spec(str(path)))
    with pytest.raises(StopwavError, match="no class 'Yours'; the file has"):
        find_class(parse_spec(f"{path}:Yours"))
    path.write_text("import nothing_of_that_name")
    with pytest.raises(StopwavError, match="failed to import"):
        find_class(parse_spec(f"{path}:Mine"))


def test_an_engine_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("theirs", "stopwav.engines.fake:Fake", "stopwav.engines")
    dist = importlib.metadata.distribution("numpy")
    vars(point).update(dist=dist)
    monkeypatch.setattr("stopwav.engines.registry.entry_points", lambda group: (point,))
    assert "theirs" in [entry.name for entry in available()]
    assert make("theirs").info.name == "fake"


def test_the_list_shows_what_is_missing_and_what_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = {entry.name: entry for entry in available()}
    assert is_streaming(by_name["pocketsphinx"]) is True

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert by_name["moonshine"].version is None
    assert is_streaming(by_name["moonshine"]) is None
    with pytest.raises(StopwavError, match=r"pip install 'stopwav\[moonshine\]'"):
        make("moonshine")


def test_the_printed_list_keeps_the_brackets_of_an_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from stopwav.cli.engines import engines

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    monkeypatch.setenv("COLUMNS", "200")
    engines()
    assert "pip install 'stopwav[moonshine]'" in capsys.readouterr().out
