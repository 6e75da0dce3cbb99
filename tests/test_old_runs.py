"""Run files of earlier releases are read by this one, and say what they said then.

tests/data holds runs as stopwav 0.1.0 wrote them: `latency-real` of two recognisers on four utterances of the bundled
corpus in two rounds, `latency-failures` of scripted engines, one that fails in some utterances and one that never
loads. Where audio lay has been made relative. They are not to be made anew: a later format adds a file of its own.
"""

import json
import re
from pathlib import Path

import pytest

from stopwav.record import Record, Result
from stopwav.studies.study import results

DATA = Path(__file__).parent / "data"

# Estimates that are sums, counts and order statistics of what is stored: no release has a reason to change them.
FIGURES = {
    "latency-real": {
        "pocketsphinx": {
            "rtf": 0.2784257430760334,
            "wer": 0.12,
            "upwr": 2.7254901960784315,
            "normalised_erasure": 2.980392156862745,
            "words_recognised": 0.9,
            "chunk_lag_p50": 0.01481018199999995,
            "chunk_lag_p90": 0.039948541000000004,
            "service_p50": 0.014519864000000382,
            "word_latency_p50": 0.11278959100000008,
            "word_latency_mean": 0.45460781741111106,
            "waterfall_inference": 0.04279829339999999,
            "waterfall_emission": 0.35822222222222216,
            "committed_latency_p50": 0.15190291699999992,
            "first_word_latency_p50": 0.264640943,
            "final_latency_p50": 0.4384675920000003,
            "laal_ca": 0.9164320159216721,
            "al": 0.8455511363636364,
            "dal": 2.0144626681354363,
            "keeps_up": 1.0,
            "load_time": 0.6971859970000001,
            "peak_host_bytes": 156135424.0,
            "sum_of_p95s": 0.151406009,
            "share_computing": 0.057867730639092445,
        },
        "moonshine": {
            "rtf": 0.6930289537438565,
            "wer": 0.1,
            "upwr": 1.0588235294117647,
            "normalised_erasure": 2.0,
            "words_recognised": 0.92,
            "chunk_lag_p50": 0.1226297460000001,
            "chunk_lag_p90": 0.7864317889999999,
            "service_p50": 0.00037735499999946853,
            "word_latency_p50": 0.8308430740000001,
            "word_latency_mean": 1.1553236996847829,
            "waterfall_inference": 0.4866105961195652,
            "waterfall_emission": 0.5086956521739131,
            "committed_latency_p50": 0.9029735730000001,
            "first_word_latency_p50": 0.9810051310000001,
            "final_latency_p50": 0.37029595299999996,
            "laal_ca": 2.8117518507842667,
            "al": 1.642133672248804,
            "dal": 3.486446280991736,
            "keeps_up": 1.0,
            "load_time": 0.7910852115,
            "peak_host_bytes": 246681600.0,
            "sum_of_p95s": 0.566581859,
            "share_computing": 0.3538828403556163,
        },
    },
    "latency-failures": {
        "fake:script.json": {
            "rtf": 0.4093396618333332,
            "wer": 0.0,
            "upwr": 0.5,
            "normalised_erasure": 0.5,
            "words_recognised": 0.5,
            "chunk_lag_p50": 0.032057114,
            "chunk_lag_p90": 0.130047258,
            "service_p50": 0.002029742000000001,
            "word_latency_p50": -0.067939466,
            "word_latency_mean": -0.06793455233333336,
            "waterfall_inference": 0.0020048611666666667,
            "waterfall_emission": -0.10000000000000005,
            "committed_latency_p50": -0.067939466,
            "first_word_latency_p50": 0.0020223799999999903,
            "final_latency_p50": 0.207042218,
            "laal_ca": 0.0020258455000000002,
            "al": 1.3877787807814457e-17,
            "dal": 0.09999999999999999,
            "keeps_up": 1.0,
            "load_time": 0.0068479215000000005,
            "peak_host_bytes": 48435200.0,
        },
        "flaky.py:Flaky": {
            "rtf": 0.0013587534999999484,
            "wer": 0.0,
            "upwr": 1.0,
            "normalised_erasure": 1.0,
            "words_recognised": 0.5,
            "chunk_lag_p50": 0.00013597800000009208,
            "chunk_lag_p90": 0.00016813599999999929,
            "service_p50": 0.00013597800000009208,
            "word_latency_mean": -0.19985211975000003,
            "waterfall_inference": 0.00012157824999999998,
            "waterfall_emission": -0.2,
            "laal_ca": 0.050151895625,
            "al": 0.05000000000000002,
            "dal": 0.19999999999999998,
            "keeps_up": 1.0,
            "load_time": 0.0009905930000000001,
        },
    },
}


def read(stem: str) -> tuple[Record, dict[str, Result]]:
    record = Record.read(DATA / f"{stem}.jsonl")
    return record, {result.name: result for result in results(record)}


def test_no_file_is_left_out() -> None:
    assert {path.stem for path in DATA.glob("*.jsonl")} == set(FIGURES)


@pytest.mark.parametrize("stem", FIGURES)
def test_key_figures_are_what_they_were(stem: str) -> None:
    _, found = read(stem)
    for engine, figures in FIGURES[stem].items():
        for metric, value in figures.items():
            assert found[engine].metrics[metric].value == pytest.approx(value, rel=1e-9), f"{engine} {metric}"


@pytest.mark.parametrize("stem", FIGURES)
def test_intervals_hold_their_values(stem: str) -> None:
    _, found = read(stem)
    for result in found.values():
        for name, estimate in result.metrics.items():
            if estimate.low is not None and estimate.high is not None and estimate.value is not None:
                assert estimate.low <= estimate.value + 1e-12, name
                assert estimate.value <= estimate.high + 1e-12, name


def test_the_header_is_understood() -> None:
    record, found = read("latency-real")
    assert record.complete
    assert record.header.format == 1
    assert record.header.corpus["name"] == "bundled"
    assert record.header.normaliser == {"name": "stopwav-english", "version": 1}
    assert list(found) == ["pocketsphinx", "moonshine"]
    params = found["moonshine"].params
    assert (params["utterances"], params["words"], params["rounds"], params["pace"]) == (4, 50, 2, "virtual")


def test_failures_are_told_as_they_were() -> None:
    record, found = read("latency-failures")
    assert record.complete
    assert {name: result.status for name, result in found.items()} == {
        "fake:script.json": "ok",
        "flaky.py:Flaky": "ok",
        "flaky.py:Never": "error",
    }
    told = {(name, warning.code): warning.message for name, result in found.items() for warning in result.warnings}
    assert "did not load: OSError: model.bin: no such file" in told["flaky.py:Never", "stream-error"]
    assert "u3.wav is empty" in told["fake:script.json", "stream-error"]
    said = [warning.message for warning in found["flaky.py:Flaky"].warnings]
    assert any("u2: in chunk 4 (audio 0.30 to 0.40 s): ValueError" in message for message in said)


@pytest.mark.parametrize("stem", FIGURES)
def test_they_name_no_place_on_the_machine_that_made_them(stem: str) -> None:
    text = (DATA / f"{stem}.jsonl").read_text()
    assert not re.search(r'"/|[ (]/(?!\s)\w|/(home|tmp|root)/', text)
    for line in text.splitlines():
        json.loads(line)


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in DATA.iterdir()) <= 300_000
