"""The settings that the built-in engines offer to try."""

from typing import Any

import pytest

from stopwav import Knob, StopwavError
from stopwav.engines.registry import list_knobs, prepare, with_knob


def offered(text: str) -> dict[str, str]:
    """The settings with the reason why each is not available, or ""."""
    return {knob.text: knob.unavailable for knob in list_knobs(text)}


def test_moonshine_offers_other_update_intervals() -> None:
    pytest.importorskip("moonshine_voice")
    assert list(offered("moonshine")) == ["update_interval_s=0.25", "update_interval_s=1.0"]
    assert list(offered("moonshine,update_interval_s=2")) == ["update_interval_s=1.0", "update_interval_s=4.0"]


def test_an_engine_without_settings_says_so() -> None:
    with pytest.raises(StopwavError, match="has no variants"):
        list_knobs("pocketsphinx")


class TestEmformer:
    @pytest.fixture(autouse=True)
    def torch(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        torch = pytest.importorskip("torch")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: self.cuda)
        return torch

    cuda = False

    def test_on_the_cpu_precision_search_context_and_compilation(self) -> None:
        settings = offered("emformer-rnnt")
        tried = [setting for setting, reason in settings.items() if "GPU" not in reason]
        assert tried == [
            "dtype=bfloat16",
            "dtype=int8",
            "beam=5",
            "beam=1",
            "search=greedy",
            "segment=8",
            "right_context=0",
            "compile=true",
        ]
        for setting in ("device=cuda", "device=cuda,features=cuda"):
            assert "finds no NVIDIA GPU here" in settings[setting]

    def test_on_the_gpu_half_precision_and_features_on_the_device(self) -> None:
        self.cuda = True
        settings = offered("emformer-rnnt,device=cuda,search=greedy,segment=4,right_context=0,graphs=false")
        assert settings == {
            "dtype=float16": "",
            "dtype=bfloat16": "",
            "features=cuda": "",
            "graphs=true": "",
            "compile=true": "",
        }

    def test_the_settings_of_the_spec_itself_are_not_offered(self) -> None:
        settings = offered("emformer-rnnt,dtype=int8,beam=5,segment=8,right_context=0,compile=true")
        assert [setting for setting, reason in settings.items() if not reason] == [
            "dtype=bfloat16",
            "beam=1",
            "search=greedy",
            "segment=4",
        ]

    def test_int8_is_not_taken_to_the_gpu(self) -> None:
        self.cuda = True
        assert offered("emformer-rnnt,dtype=int8")["device=cuda"] == "dtype=int8 is only for the CPU"

    def test_every_setting_is_one_that_the_engine_takes(self) -> None:
        for knob in list_knobs("emformer-rnnt,beam=10"):
            assert isinstance(knob, Knob)
            prepare(with_knob("emformer-rnnt,beam=10", knob))
