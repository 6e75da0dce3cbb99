"""Numbers that no setting can have, in every study, from Python, the command line and a file: an error in one line."""

from pathlib import Path
from typing import Any

import pytest
from command_line import command

from stopwav.errors import StopwavError
from stopwav.studies.spec import MOST, StudySpec, checked, flag_of
from stopwav.studies.study import LISTED, find_study

# The first run of each study needs these; nothing is installed under such a name.
NEEDED: dict[str, dict[str, Any]] = {
    "latency": {"engines": ["no-such"]},
    "grid": {"engines": ["no-such"]},
    "compare": {"engines": ["no-such", "other"]},
    "load": {"targets": ["no-such"]},
    "loss": {"losses": ["no-such"]},
    "step": {"model": "no-such"},
}
TEXTS = ("0", "-1", "nan", "inf", "1e300", "9" * 400, "9" * 5000, "")
YAML_TEXTS = (*TEXTS, ".nan", "-.inf", "1e400", "1.5", "0x" + "f" * 5000, "[1, .inf]", "{}", "true")


def numeric(spec: type[StudySpec]) -> list[str]:
    """The settings that are numbers, or lists of them."""
    annotations = {name: str(spec.model_fields[name].annotation) for name in spec.options()}
    return [name for name, text in annotations.items() if "Literal" not in text and ("int" in text or "float" in text)]


SETTINGS = [(study, name) for study in NEEDED for name in numeric(find_study(study).spec)]
by_setting = pytest.mark.parametrize(("study", "setting"), SETTINGS)
# A file is read in one way for all studies: one setting of each kind.
OF_EACH_KIND = [
    ("grid", "rounds"),
    ("grid", "time_limit_s"),
    ("grid", "durations"),
    ("loss", "batch_size"),
    ("step", "seed"),
]


def test_every_study_is_here() -> None:
    assert set(NEEDED) == set(LISTED)
    assert len(SETTINGS) > 40


@by_setting
def test_from_python(study: str, setting: str) -> None:
    spec = find_study(study).spec
    annotation = str(spec.model_fields[setting].annotation)
    for value in (10**400, 10**5000, -(10**400), 1e300, float("inf"), float("nan"), -1, 2**63):
        for given in (value, [value]):
            with pytest.raises(StopwavError) as caught:
                checked(spec, **NEEDED[study], **{setting: given})
            assert "\n" not in str(caught.value)
            assert len(str(caught.value)) < 300
    # What is asked for may be as large as any machine can do.
    if "float" in annotation and "list" not in annotation:
        # A soak holds a level, which has to be named.
        level = {"streams": [4]} if setting == "soak_s" else {}
        checked(spec, **NEEDED[study], **level, **{setting: float(MOST)})


@by_setting
def test_from_the_command_line(study: str, setting: str, tmp_path: Path) -> None:
    names = [name for value in NEEDED[study].values() for name in ([value] if isinstance(value, str) else value)]
    for text in TEXTS:
        done = command(study, *names, f"--{flag_of(setting)}={text}", "--save", tmp_path)
        assert done.code == 2
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert len(done.stderr) < 400
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("study", "setting"), OF_EACH_KIND)
def test_from_a_file(study: str, setting: str, tmp_path: Path) -> None:
    (key, value), *_ = NEEDED[study].items()
    needed = f"{key}: {value if isinstance(value, str) else str(value)}"
    file = tmp_path / "plan.yaml"
    for text in YAML_TEXTS:
        file.write_text(f"studies:\n  - {study}: {{{needed}, {setting}: {text}}}\n")
        done = command("run", file, "--no-html", "--save", tmp_path)
        assert done.code == 2
        lines = [line for line in done.stderr.splitlines() if not line.startswith("stopwav: 1/1")]
        assert len(lines) == 1, done.stderr
        assert len(lines[0]) < 400


@pytest.mark.parametrize(
    "options",
    [
        ("--rounds", "9" * 400),
        ("--seed", "1e300"),
        ("--set", f"rounds={'9' * 5000}"),
        ("--set", "time-limit=1e300"),
        ("--set", "seed=.inf"),
    ],
)
def test_overrides_of_a_file(tmp_path: Path, options: tuple[str, str]) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("studies:\n  - grid: {engine: fake}\n")
    done = command("run", "--check", file, *options)
    assert done.code == 2
    assert len(done.stderr.splitlines()) == 1
    assert options[0] in done.stderr
