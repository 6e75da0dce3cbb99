"""The label of an engine: both ways to write it, what is none, and what cannot be one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav import StopwavError
from stopwav.engines.label import LONGEST_LABEL, check_label, read_label
from stopwav.engines.protocol import Knob
from stopwav.engines.registry import parse_spec, with_knob
from stopwav.servers.registry import is_server


@pytest.mark.parametrize(
    ("text", "label", "setting"),
    [
        ("moonshine", "", "moonshine"),
        ("fast=moonshine,update_interval_s=0.1", "fast", "moonshine,update_interval_s=0.1"),
        ("moonshine,label=fast,update_interval_s=0.1", "fast", "moonshine,update_interval_s=0.1"),
        ("zwei Wörter=moonshine", "zwei Wörter", "moonshine"),
        ("C=/models/own.py:Own", "C", "/models/own.py:Own"),
        # What stands before the sign is a part of a path, or of an address.
        ("./C=D/own.py:Own", "", "./C=D/own.py:Own"),
        ("vosk-server:ws://host:2700?a=b", "", "vosk-server:ws://host:2700?a=b"),
        ("transformers:a=b,beam=4", "", "transformers:a=b,beam=4"),
        ("s=vosk-server:ws://host:2700?a=b", "s", "vosk-server:ws://host:2700?a=b"),
    ],
)
def test_a_label_and_its_setting(text: str, label: str, setting: str) -> None:
    read = read_label(text)
    assert (read.label, read.setting, read.name) == (label, setting, label or setting)
    check_label(text)
    assert parse_spec(text).name == setting.partition(",")[0].partition(":")[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("=moonshine", "its label is empty"),
        ("moonshine,label=", "its label is empty"),
        (f"{'x' * (LONGEST_LABEL + 1)}=moonshine", "its label has 41 characters"),
        ("<b>=moonshine", "cannot be a label"),
        ("moonshine,label=a\x1b[31m", "cannot be a label"),
        ("m#2=moonshine", "cannot be a label"),
        ("fast=slow=moonshine", "more than one label"),
        ("fast=moonshine,label=slow", "more than one label"),
    ],
)
def test_what_cannot_be_a_label_is_an_error_with_the_way_out(text: str, reason: str) -> None:
    with pytest.raises(StopwavError, match=reason) as refused:
        parse_spec(text)
    assert len(str(refused.value).splitlines()) == 1
    assert "\x1b" not in str(refused.value)


@given(st.text(max_size=80))
def test_any_text_has_a_name_and_either_a_label_that_can_be_shown_or_none(text: str) -> None:
    read = read_label(text)
    assert read.name == text or (read.label and read.label.isprintable() and len(read.label) <= LONGEST_LABEL)
    assert not set(read.label) & set("<>&#,=:/\\|")


def test_the_label_is_no_option_and_a_setting_that_is_tried_has_none() -> None:
    assert parse_spec("fast=fake,service_ms=2").options == {"service_ms": 2}
    assert parse_spec("fake,label=fast").options == {}
    assert with_knob("fast=fake,service_ms=2", Knob({"service_ms": 3})) == "fake,service_ms=3"


def test_a_labelled_server_is_a_server() -> None:
    assert is_server("mine=vosk-server:ws://localhost:1")
    assert is_server("vosk-server:ws://localhost:1,label=mine")
    assert not is_server("vosk-server=pocketsphinx")
