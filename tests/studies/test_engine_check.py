"""An engine's file is imported in a process of its own: however it ends, this process stays as it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Done, command
from noise_corpus import write_corpus

from stopwav.engines.registry import BUILT_IN
from stopwav.errors import StopwavError
from stopwav.studies import engine_check
from stopwav.studies.engine_check import check_engine, check_engines, offered_settings

GOOD = """
from stopwav import EngineInfo
class Own:
    info = EngineInfo(name="own", version="1")
    def __init__(self, beam=1): pass
    def open(self): ...
    def transcribe(self, batch): return [""] * len(batch)
"""
# The first lines of a file, and what is said of it.
ENDINGS = {
    "import sys; sys.exit(0)": "failed to import: SystemExit(0)",
    "import os; os._exit(0)": "importing own.py ended the process: exited with code 0",
    "import os; os.kill(os.getpid(), 11)": "importing own.py ended the process: crashed (SIGSEGV)",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "raise MemoryError": "MemoryError",
    "def": "failed to import: SyntaxError",
}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    return Path("own.py")


def says(done: Done, reason: str) -> None:
    """An error in one line that names the engine, and no run."""
    assert done.code == 2, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("stopwav: ")
    assert "own.py" in line
    assert reason in line
    assert not done.stdout
    assert not list(Path().glob("stopwav-runs/*"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_that_ends_its_process_is_an_error_in_one_line(own: Path, ending: str) -> None:
    own.write_text(f"print('bye', flush=True)\n{ending}\n{GOOD}")
    done = command("latency", "fake", "own.py:Own", "--quick")
    says(done, ENDINGS[ending])
    assert "its last words: bye" in done.stderr or ending == "def"


@pytest.mark.parametrize("verb", [["grid"], ["grid", "--device", "cpu"], ["compare"]])
def test_so_it_is_in_the_other_studies(own: Path, verb: list[str]) -> None:
    own.write_text("import os; os._exit(0)")
    says(command(*verb, "own.py:Own", "--quick"), "exited with code 0")


def test_a_file_that_does_not_end_is_killed_once(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_check, "IMPORT_LIMIT_S", 2.0)
    own.write_text("open('tries', 'a').write('x')\nwhile True: pass")
    # The estimate of the time asks first, and the run then.
    says(command("latency", "own.py:Own", "--time-limit", 1), "no answer within 2 s; killed; --time-limit gives it")
    assert Path("tries").read_text() == "x"


def test_what_a_file_prints_and_changes_stays_in_its_process(own: Path) -> None:
    own.write_text("import os, sys\nprint('noise')\nos.chdir('/')\nos.environ['OWN'] = '1'\n" + GOOD)
    write_corpus(Path("corpus"), count=1)
    here, path = os.getcwd(), list(sys.path)
    small = ("--durations", "0.1", "--batch-sizes", "1", "--no-html", "--audio", "corpus/u000.wav")
    done = command("grid", "own.py:Own", "--rounds", 1, *small)
    assert done.code == 0, done
    assert "noise" not in done.stdout + done.stderr
    assert (os.getcwd(), sys.path, "OWN" in os.environ, "own" in sys.modules) == (here, path, False, False)


def test_a_file_is_imported_once_for_all_engines_that_name_it(own: Path) -> None:
    own.write_text("import os\nopen('tries', 'a').write('x')\nos.chdir('/')\n" + GOOD)
    options = [inspected.options for inspected in check_engines(["own.py:Own", "fake", "own.py:Own,beam=2"])]
    assert options[0] == options[2] == ("beam",)
    with pytest.raises(StopwavError, match="no class 'Yours'"):
        check_engines(["own.py:Own", "own.py:Yours"])
    assert Path("tries").read_text() == "xx"


def test_a_plan_file_is_checked_without_importing_it_here(own: Path) -> None:
    own.write_text("import os; os._exit(0)")
    Path("plan.yaml").write_text("studies:\n  - latency: {engines: [own.py:Own]}\n  - grid: {engine: own.py:Own}\n")
    done = command("run", "plan.yaml", "--check", "--json")
    assert done.code == 2, done
    for cell in json.loads(done.stdout)["cells"]:
        (problem,) = cell["problems"]
        assert problem.startswith("plan.yaml:")
        assert "exited with code 0" in problem


def test_settings_to_try_are_asked_for_in_that_process(own: Path) -> None:
    own.write_text(GOOD + "    @staticmethod\n    def variants(options):\n        import os; os._exit(0)\n")
    says(command("latency", "own.py:Own", "--explain", "--quick"), "exited with code 0")
    # What is offered may be of any type, and comes back as text.
    own.write_text(
        "import enum, os\nos.chdir('/')\nfrom stopwav import Knob\nclass Beam(enum.IntEnum):\n    SMALL = 3\n"
        + GOOD
        + "    @staticmethod\n    def variants(options):\n"
        + "        return [Knob({'beam': Beam.SMALL}), Knob({'beam': 9}, 'no')]\n"
    )
    offered = [(setting.engine, setting.unavailable) for setting in offered_settings("own.py:Own")]
    assert offered == [("own.py:Own,beam=3", ""), ("own.py:Own,beam=9", "no")]
    assert "own" not in sys.modules


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.py:Own", "no file 'nowhere.py'; write path/to"),
        ("own.py", "which class"),
        ("own.py:Yours", "no class 'Yours'; the file has"),
        ("own.py:Own,bream=3", "it takes beam"),
        ("pocketsphynx", "did you mean 'pocketsphinx'"),
        ("fake,beam=3", "it takes source|it takes service_ms"),
    ],
)
def test_what_is_wrong_with_a_name_is_said_as_before(own: Path, name: str, message: str) -> None:
    own.write_text(GOOD)
    with pytest.raises(StopwavError, match=message):
        check_engine(name)


def test_a_file_that_was_corrected_is_looked_at_again(own: Path) -> None:
    Path(".#own.py").symlink_to("nothing")
    own.write_text("import nothing_of_that_name")
    with pytest.raises(StopwavError, match="failed to import"):
        check_engine("own.py:Own")
    own.write_text(GOOD)
    assert check_engine("own.py:Own").options == ("beam",)
    Path("part.py").write_text("")
    own.write_text("import sys; sys.path.insert(0, '.')\nimport part\n" + GOOD)
    assert check_engine("own.py:Own").sources == ("own.py", "part.py")


def test_an_engine_of_another_package_is_imported_there_too(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = own.resolve().parent / "site"
    (folder / "theirs-1.0.dist-info").mkdir(parents=True)
    (folder / "theirs-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (folder / "theirs-1.0.dist-info" / "entry_points.txt").write_text("[stopwav.engines]\ntheirs = theirs:Own\n")
    (folder / "theirs.py").write_text("import os; print('bye', flush=True); os._exit(0)")
    monkeypatch.syspath_prepend(folder)
    done = command("latency", "theirs", "--quick")
    assert done.code == 2
    assert done.stderr == (
        "stopwav: engine 'theirs': importing engine theirs ended the process: exited with code 0; its last words: bye\n"
    )
    done = command("engines", "--json")
    assert done.code == 0
    row = json.loads(done.stdout)["engines"][-1]
    assert (row["name"], row["streaming"]) == ("theirs", None)
    assert row["problem"] == "engine 'theirs' does not import: exited with code 0; its last words: bye"
    assert "theirs" not in sys.modules


def test_a_light_engine_imports_no_toolkit_when_it_is_checked() -> None:
    code = (
        "import sys\nfrom stopwav.engines.registry import BUILT_IN\n"
        "from stopwav.studies.engine_check import check_engine\n"
        "light = [entry.name for entry in BUILT_IN if entry.is_light and entry.version]\n"
        "from contextlib import suppress\nfrom stopwav.errors import StopwavError\n"
        "for name in light:\n    with suppress(StopwavError): check_engine(name)  # some need the name of a model\n"
        "print(*light)\nprint(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    light, loaded = (set(line.split()) for line in done.stdout.splitlines())
    assert {"pocketsphinx", "fake"} <= light
    assert not light & {"emformer-rnnt", "transformers"}
    toolkits = {"torch", "pocketsphinx", "moonshine_voice", "sherpa_onnx", "vosk", "faster_whisper", "speechbrain"}
    assert not loaded & toolkits
    assert len(BUILT_IN) > len(light)
