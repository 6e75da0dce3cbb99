"""SpeechBrain's profiling recipe as it is: read as data, with what it does not know named."""

import importlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stopwav.errors import StopwavError
from stopwav.studies.plan.plan_file import read_plan
from stopwav.studies.plan.speechbrain_recipe import is_recipe, read_recipe

MODEL = "pretrained_model:\n  source: speechbrain/some-model\n  type: EncoderASR\n"


def device() -> str:
    """As SpeechBrain's script chooses it."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return "cpu"
    return "cuda" if torch.cuda.is_available() else "cpu"


def read(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "profile.yaml"
    path.write_text(text, encoding="utf-8")
    return read_recipe(path)


def error(folder: Path, text: str) -> str:
    with pytest.raises(StopwavError) as raised:
        read(folder, text)
    said = str(raised.value)
    assert "\n" not in said
    return said.removeprefix(f"{folder}/")


def test_a_recipe_with_every_key(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "speech.flac").touch()
    (tmp_path / "recipe").mkdir()
    text = f"""
# Which model to profile?
{MODEL}
profiling_dimensions:
  audio_mockup_secs: [1, 2.5, 32]
  batch_sizes: [1, 4, 8]
  example_audio: ../samples/speech.flac
  triangle_only: False
  export_logs: True
"""
    assert read(tmp_path / "recipe", text) == {
        "engines": ["speechbrain:speechbrain/some-model,type=EncoderASR"],
        "durations": [1, 2.5, 32],
        "batch_sizes": [1, 4, 8],
        "audio": str(tmp_path / "recipe" / ".." / "samples" / "speech.flac"),
        "triangle": False,
        "traces": True,
        "device": device(),
    }


def test_what_it_does_not_say_is_as_in_speechbrains_script(tmp_path: Path) -> None:
    found = read(tmp_path, MODEL)
    assert (found["durations"], found["batch_sizes"]) == ([1, 2], [1, 2])
    assert (found["audio"], found["triangle"], found["traces"]) == ("noise", True, False)
    for nothing in ("", "null", "None"):
        assert read(tmp_path, f"{MODEL}profiling_dimensions:\n  example_audio: {nothing}\n")["audio"] == "noise"


def test_a_model_beside_the_file_is_found_from_it(tmp_path: Path) -> None:
    text = "pretrained_model: {source: model, type: EncoderASR, savedir: kept}"
    assert read(tmp_path, text)["engines"] == ["speechbrain:model,type=EncoderASR"]
    for folder in ("kept", "model"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "hyperparams.yaml").touch()
        assert read(tmp_path, text)["engines"] == [f"speechbrain:{tmp_path / folder},type=EncoderASR"]


def test_references_are_replaced_as_text(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    text = """
folder: .
name: !ref <sizes[model]>
sizes: {model: some-model, batch: 4}
pretrained_model: {source: !ref speechbrain/<name>, type: EncoderASR}
profiling_dimensions:
  batch_sizes:
    - 1
    - !ref <sizes[batch]>
  example_audio: !ref <folder>/a.wav
"""
    found = read(tmp_path, text)
    assert found["engines"] == ["speechbrain:speechbrain/some-model,type=EncoderASR"]
    assert found["batch_sizes"] == [1, 4]
    assert Path(found["audio"]) == tmp_path / "a.wav"


DIMENSIONS = f"{MODEL}profiling_dimensions:\n  "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{DIMENSIONS}batch_size: [1]", "profile.yaml:5:3: unknown key 'batch_size' of profiling_dimensions; did you"),
        (f"{MODEL}  tpye: x", "profile.yaml:4:3: unknown key 'tpye' of pretrained_model; did you mean 'type'?"),
        (f"{MODEL}profiling_dimension: {{}}", "profile.yaml:4:1: unknown key 'profiling_dimension' of a profiling"),
        (f"{DIMENSIONS}batch_sizes: [1, two]", "profile.yaml:5:20: batch_sizes should be a whole number"),
        (f"{DIMENSIONS}batch_sizes: [1.5]", "profile.yaml:5:17: batch_sizes should be a whole number greater than 0"),
        (f"{DIMENSIONS}batch_sizes: []", "profile.yaml:5:16: batch_sizes is empty"),
        (f"{DIMENSIONS}audio_mockup_secs: [0]", "profile.yaml:5:23: audio_mockup_secs should be a number of seconds"),
        (f"{DIMENSIONS}audio_mockup_secs: 5", "profile.yaml:5:22: audio_mockup_secs must be a list"),
        (f"{DIMENSIONS}triangle_only: maybe", "profile.yaml:5:18: should be True or False, not 'maybe'"),
        (f"{DIMENSIONS}example_audio: gone.wav", "profile.yaml:5:18: example_audio: there is no file"),
        (f"{DIMENSIONS}example_audio: !ref <gone>", "profile.yaml:5:18: !ref <gone>: there is no 'gone' in the file"),
        ("pretrained_model: {source: x}", "profile.yaml:1:1: pretrained_model needs 'type'"),
        ("pretrained_model: {source: 'a,b', type: x}", "profile.yaml:1:19: 'a,b' has a comma"),
        ("studies: []", "profile.yaml: no 'pretrained_model', so not a profiling recipe of SpeechBrain; `stopwav run"),
        ("other: []", "profile.yaml: no 'pretrained_model', so not a profiling recipe of SpeechBrain; it needs"),
        ("a: !ref <b>\nb: !ref <a>\npretrained_model: {source: !ref <a>, type: x}", "profile.yaml:"),
        ("a: !new:os.system\npretrained_model: {}", "profile.yaml:1:4: tag '!new:os.system' is refused"),
        ("pretrained_model: !apply:os.system {}", "profile.yaml:1:19: tag '!apply:os.system' is refused"),
        ("pretrained_model: {source: !name:os.system , type: x}", "profile.yaml:1:28: tag '!name:os.system' is ref"),
        ("pretrained_model: {source: !PLACEHOLDER , type: x}", "profile.yaml:1:28: tag '!PLACEHOLDER' is refused"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(text: str, said: str, tmp_path: Path) -> None:
    assert error(tmp_path, text).startswith(said)


def test_references_that_double_at_each_step_are_bounded(tmp_path: Path) -> None:
    steps = "".join(f"{name}: !ref {f'<{after}>' * 9}\n" for name, after in zip("abcdefgh", "bcdefghi", strict=True))
    said = error(tmp_path, f"{steps}i: ''\npretrained_model: {{source: !ref <a>, type: x}}")
    assert "is circular, or there are more than 100" in said


def test_a_plan_file_may_name_a_recipe_and_what_it_says_itself_wins(tmp_path: Path) -> None:
    recipe = tmp_path / "profile.yaml"
    recipe.write_text(
        "pretrained_model: {source: some/model, type: EncoderASR}\n"
        "profiling_dimensions: {audio_mockup_secs: [3], batch_sizes: [5], triangle_only: False}\n"
    )
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"studies:\n  - grid: {{engine: {recipe}, batch-sizes: [7], rounds: 1}}\n")
    (run,) = read_plan(plan)
    assert run.arguments == {
        "engines": ["speechbrain:some/model,type=EncoderASR"],
        "durations": [3],
        "batch_sizes": [7],
        "audio": "noise",
        "triangle": False,
        "traces": False,
        "rounds": 1,
        "device": device(),
    }
    assert run.spec.durations == [3.0]


def test_a_recipe_is_told_from_an_engine_by_its_suffix() -> None:
    assert is_recipe("profile.yaml")
    assert is_recipe("a/b.yml")
    assert not is_recipe("pocketsphinx")
    assert not is_recipe("my_engine.py:MyEngine")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text_is_a_recipe_or_an_error_in_one_line(tmp_path: Path, text: str) -> None:
    for content in (text, f"{DIMENSIONS}{text}", f"{DIMENSIONS}example_audio: !ref {text}"):
        said = ""
        try:
            assert read(tmp_path, content)["engines"]
        except StopwavError as error:
            said = str(error)
        assert len(said.splitlines()) <= 1


def test_audio_that_is_given_is_not_looked_for_in_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "profile.yaml").write_text(f"{DIMENSIONS}example_audio: gone.wav\n")
    assert "audio" not in read_recipe(tmp_path / "profile.yaml", ["audio"])
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"studies: [grid: {{engine: {tmp_path / 'profile.yaml'}, audio: noise}}]\n")
    (run,) = read_plan(plan)
    assert run.spec.audio == "noise"
