"""The table of how each study is shown, against that of the studies there are."""

import pytest
from stopwav.report.presentation import PRESENTATIONS, presentation_of

from stopwav.errors import StopwavError
from stopwav.studies.study import STUDIES, find


def test_every_study_is_shown() -> None:
    assert set(PRESENTATIONS) == set(STUDIES)
    with pytest.raises(StopwavError, match="a run of 'dance', which this version of stopwav does not know"):
        presentation_of("dance")


@pytest.mark.parametrize("name", STUDIES)
def test_what_the_catalogue_names_is_there(name: str) -> None:
    study = STUDIES[name]
    assert callable(study.function)
    assert callable(study.results)
    for path in (study.view, study.guess, *study.beside.values()):
        assert path is None or callable(find(path))


def test_points_of_studies_that_are_followed_are_told_apart() -> None:
    followed = [one.series for one in PRESENTATIONS.values() if not one.of_training]
    assert len(set(followed)) == len(followed)
