"""Settings about the speech and text of a corpus, which every study of recognised text has."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from stopwav.engines.ctc_aligner import check_aligner
from stopwav.errors import StopwavError
from stopwav.speech.language import checked_language
from stopwav.speech.normaliser import Normaliser, default_normaliser, make_normaliser
from stopwav.speech.utterance import Corpus
from stopwav.studies.spec import Option


def _normaliser(name: str | None) -> str | None:
    try:
        return name if name is None else make_normaliser(name).name
    except StopwavError as error:
        raise ValueError(str(error)) from None


def _language(name: str | None) -> str | None:
    try:
        return name if name is None else checked_language(name)
    except StopwavError as error:
        raise ValueError(str(error)) from None


def _aligner(name: str | None) -> str | None:
    try:
        return name if name is None else check_aligner(name)
    except StopwavError as error:
        raise ValueError(str(error)) from None


NormaliserSetting = Annotated[
    str | None,
    Option(
        "Rules by which texts are compared: whisper-english, whisper-basic, stopwav-english or none; default: "
        "whisper-english for English, whisper-basic for other languages."
    ),
    AfterValidator(_normaliser),
]
LanguageSetting = Annotated[
    str | None,
    Option("Language of the corpus, such as en or de; default: what the corpus says, else English."),
    AfterValidator(_language),
]
AlignerSetting = Annotated[
    str | None,
    Option(
        "What finds word times: pocketsphinx (English), or transformers:FOLDER-OR-HUB, a CTC model of any language.",
        metavar="ALIGNER",
    ),
    AfterValidator(_aligner),
]


def run_normaliser(name: str | None, corpus: Corpus) -> Normaliser:
    """Return the normaliser of a run: the one that is named, else that for the languages of its corpus."""
    return make_normaliser(name or default_normaliser(corpus.languages), corpus.languages)
