"""What the built-in engines offer to try."""

from typing import Any

import pytest

from stopwav import Knob, StopwavError
from stopwav.engines.knobs import knobs_of, varied
from stopwav.engines.registry import prepare


def offered(text: str) -> dict[str, str]:
    """The settings with the reason why each cannot be tried, or ""."""
    return {knob.text: knob.unavailable for knob in knobs_of(text)}


def test_moonshine_offers_other_update_intervals() -> None:
    pytest.importorskip("moonshine_voice")
    assert list(offered("moonshine")) == ["update_interval_s=0.25", "update_interval_s=1.0"]
    assert list(offered("moonshine,update_interval_s=2")) == ["update_interval_s=1.0", "update_interval_s=4.0"]


def test_an_engine_without_settings_says_so() -> None:
    with pytest.raises(StopwavError, match="has no variants"):
        knobs_of("pocketsphinx")


class TestEmformer:
    @pytest.fixture(autouse=True)
    def torch(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        torch = pytest.importorskip("torch")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: self.cuda)
        return torch

    cuda = False

    def test_on_the_cpu_precision_search_context_and_compilation(self) -> None:
        found = offered("emformer-rnnt")
        tried = [setting for setting, reason in found.items() if "GPU" not in reason]
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
            assert "sees no NVIDIA GPU here" in found[setting]

    def test_on_the_gpu_half_precision_and_features_beside_the_model(self) -> None:
        self.cuda = True
        found = offered("emformer-rnnt,device=cuda,search=greedy,segment=4,right_context=0,graphs=false")
        assert found == {
            "dtype=float16": "",
            "dtype=bfloat16": "",
            "features=cuda": "",
            "graphs=true": "",
            "compile=true": "",
        }

    def test_what_the_spec_has_already_is_not_offered(self) -> None:
        found = offered("emformer-rnnt,dtype=int8,beam=5,segment=8,right_context=0,compile=true")
        assert [setting for setting, reason in found.items() if not reason] == [
            "dtype=bfloat16",
            "beam=1",
            "search=greedy",
            "segment=4",
        ]

    def test_int8_is_not_taken_to_the_gpu(self) -> None:
        self.cuda = True
        assert offered("emformer-rnnt,dtype=int8")["device=cuda"] == "dtype=int8 is for the CPU only"

    def test_every_setting_is_one_that_the_engine_takes(self) -> None:
        for knob in knobs_of("emformer-rnnt,beam=10"):
            assert isinstance(knob, Knob)
            prepare(varied("emformer-rnnt,beam=10", knob))
