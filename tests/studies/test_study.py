"""The list of studies: each object is whole, and runs of an unknown one are refused by name."""

from pathlib import Path

import pytest

from stopwav.errors import StopwavError
from stopwav.record import Header, Record
from stopwav.studies.spec import checked
from stopwav.studies.study import LISTED, find_study, study_of


@pytest.mark.parametrize("name", LISTED)
def test_every_listed_study_is_whole(name: str) -> None:
    study = find_study(name)
    assert study.name == name
    assert checked(study.spec, **study.example).stored()
    assert study.definitions.groups
    assert study.question.endswith((".", "?"))


def test_the_series_of_studies_that_are_followed_differ() -> None:
    series = [study.series for study in map(find_study, LISTED) if study.followed is not None]
    assert len(set(series)) == len(series)


def test_a_run_of_an_unknown_study_is_an_error_that_names_it() -> None:
    record = Record(Path("x.jsonl"), Header(stopwav="9", study="dance", started="", spec={}), [], complete=True)
    with pytest.raises(StopwavError, match=r"x\.jsonl: a run of 'dance', which this version of stopwav does not know"):
        study_of(record)
    with pytest.raises(StopwavError, match="unknown study 'grad': did you mean 'grid'"):
        find_study("grad")
