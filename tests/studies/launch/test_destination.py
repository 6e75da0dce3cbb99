"""What --on, --place and --shared name, and what is wrong with those that name nothing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.errors import StopwavError
from stopwav.studies.compare.spec import CompareSpec
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.launch.destination import Destination, parse_destination
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.plan.plan_file import read_plan
from stopwav.studies.spec import checked


@pytest.mark.parametrize(
    ("on", "place", "expected"),
    [
        ("ray", None, Destination("ray")),
        ("ray:head.example:6379", "gpu=H200", Destination("ray", "head.example:6379", {"gpu": "H200"})),
        ("slurm", " partition = fast , gpu=h200,", Destination("slurm", "", {"partition": "fast", "gpu": "h200"})),
        ("slurm:local", "", Destination("slurm", "local")),
    ],
)
def test_a_destination_is_read(on: str, place: str | None, expected: Destination) -> None:
    assert parse_destination(on, place) == expected


@pytest.mark.parametrize(
    ("on", "place", "message"),
    [
        ("rai", None, "--on rai: did you mean 'ray'?"),
        ("kubernetes", None, "--on kubernetes: there are ray, slurm"),
        ("ray", "H200", "--place H200: write NAME=VALUE[,NAME=VALUE…], such as gpu=H200"),
        ("ray", "gpu=", "--place gpu=: write NAME=VALUE[,NAME=VALUE…], such as gpu=H200"),
    ],
)
def test_a_wrong_one_is_an_error_with_the_way_out(on: str, place: str | None, message: str) -> None:
    with pytest.raises(StopwavError) as raised:
        parse_destination(on, place)
    assert str(raised.value) == message


@given(on=st.text(), place=st.text())
def test_any_text_is_a_destination_or_an_error_in_one_line(on: str, place: str) -> None:
    try:
        parsed = parse_destination(on, place)
    except StopwavError:
        return
    assert "" not in parsed.wanted
    assert "" not in parsed.wanted.values()


def test_a_place_without_a_cluster_is_an_error() -> None:
    with pytest.raises(StopwavError, match="--place gpu=H200 is for a cluster: name it with --on"):
        checked(GridSpec, engines=["fake"], place="gpu=H200")
    with pytest.raises(StopwavError, match="--shared is for a cluster"):
        checked(GridSpec, engines=["fake"], shared=True)


def test_where_a_run_measures_is_no_part_of_what_it_measures() -> None:
    here, there = GridSpec(engine="fake"), GridSpec(engine="fake", on="ray", place="gpu=H200", shared=True)
    assert here.stored() == there.stored()


def test_machines_that_share_a_corpus_are_those_of_a_cluster() -> None:
    with pytest.raises(StopwavError, match="--machines 3 is for a cluster: name it with --on"):
        checked(CompareSpec, engines=["fake"], machines=3)
    with pytest.raises(StopwavError, match="--generators 8 is for a cluster: name it with --on"):
        checked(LoadSpec, targets=["vosk-server:ws://host:2700"], generators=8)


def test_a_server_that_is_started_here_is_not_loaded_from_elsewhere() -> None:
    with pytest.raises(StopwavError, match="start `stopwav serve fake --host"):
        checked(LoadSpec, targets=["fake"], on="ray")


def test_a_plan_file_names_the_cluster_and_a_matrix_its_machines(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(
        'on: slurm\nstudies:\n  - grid:\n      engine: fake\n      matrix:\n        place: ["gpu=h200", "gpu=a100"]\n'
    )
    specs = [planned.spec for planned in read_plan(path)]
    assert [(spec.on, spec.place) for spec in specs] == [("slurm", "gpu=h200"), ("slurm", "gpu=a100")]
    (shared,) = {planned.spec.on for planned in read_plan(path, {"on": "ray"})}
    assert shared == "ray"
