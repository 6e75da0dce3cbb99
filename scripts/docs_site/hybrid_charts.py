"""The curves of the guide on hybrids, from the table beside them: its run is not stored, its numbers are."""

import re
from pathlib import Path

import altair as alt

from stopwav.report.axis import TICKS
from stopwav.report.chart import Chart, chart_of, colour, engine_keys, shape, spec_of

GUIDE = Path(__file__).parent.parent.parent / "docs" / "guides" / "which-hybrid-to-ship.md"
MODELS = ("Conformer", "LSTM")
# The image of each curve: the CTC weight, and what is drawn over the length of the audio.
CURVES = {
    f"hybrids-gpu-{kind}-{weight.replace('.', '')}": (weight, kind)
    for weight in ("0", "0.3", "1")
    for kind in ("latency", "energy")
}
_TITLES = {"latency": ("Latency over the length of the input", "ms"), "energy": ("Energy of an utterance, gross", "J")}
# Model, CTC weight, seconds of audio, latency in ms, tokens, J per second of audio.
_ROW = re.compile(r"^\| (Conformer|LSTM) \| ([\d.]+) \| (\d+) \| (\d+) \| \d+ \| ([\d.]+) \|", re.MULTILINE)


def hybrid_chart(name: str) -> Chart:
    """Return the chart of that image."""
    weight, kind = CURVES[name]
    title, unit = _TITLES[kind]
    rows = [
        {"engine": model, "audio_s": int(audio_s), "value": _value(kind, int(audio_s), float(ms), float(per_s_j))}
        for model, row_weight, audio_s, ms, per_s_j in _ROW.findall(GUIDE.read_text(encoding="utf-8"))
        if row_weight == weight
    ]
    log = alt.Scale(type="log", nice=False, padding=16)
    axis = alt.Axis(grid=False, format=TICKS, values=sorted({row["audio_s"] for row in rows}))
    base = chart_of(rows).encode(
        x=alt.X("audio_s:Q", scale=log, title="s of audio", axis=axis),
        y=alt.Y("value:Q", scale=log, title=unit, axis=alt.Axis(format=TICKS, tickCount=5)),
        color=colour(MODELS, MODELS),
        shape=shape(MODELS, MODELS),
        tooltip=[alt.Tooltip("engine:N"), alt.Tooltip("audio_s:Q", title="s"), alt.Tooltip("value:Q", title=unit)],
    )
    spec = spec_of(alt.layer(base.mark_line(strokeWidth=1.5), base.mark_point(filled=True, size=60, opacity=1)), 240)
    words = (f"{row['engine']}, {row['audio_s']} s: {row['value']:.4g} {unit}" for row in rows)
    return Chart(title, spec, f"{title}, CTC weight {weight}. {'; '.join(words)}.", engine_keys(MODELS, MODELS))


def _value(kind: str, audio_s: int, latency_ms: float, per_audio_s_j: float) -> float:
    return latency_ms if kind == "latency" else per_audio_s_j * audio_s
