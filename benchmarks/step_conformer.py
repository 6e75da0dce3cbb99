"""The published training step of the Conformer transducer, repeated: shares, backward, loss and overhead.

    python benchmarks/step_conformer.py --device cuda

prints Markdown. Only forward times were published, in CUDA ms, float32, batches sorted under 30,000 frames.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping

import stopwav
from stopwav.report.text import format_bytes

# Forward CUDA ms per step, as published.
PUBLISHED = {
    "rnnt_encoder": 218.5,
    "rnnt_encoder_embed": 8.4,
    "rnnt_encoder_layer": 210.0,
    "rnnt_encoder_layer_self_attn": 65.7,
    "rnnt_encoder_layer_feed_forward_macaron": 53.0,
    "rnnt_encoder_layer_feed_forward": 51.7,
    "rnnt_encoder_layer_conv": 28.8,
    "rnnt_decoder": 0.08,
    "rnnt_loss_simple": 1.9,
    "rnnt_loss_pruned": 5.0,
}
WHOLE = "rnnt_encoder_layer"


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--device", default="cuda")
    options.add_argument("--model", default="conformer-transducer", help="with sizes, to try it on a small machine")
    options.add_argument("--max-frames", type=int, default=30_000)
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    lines = ["| step | ms | frames/s | forward ms | loss ms | backward ms | peak | overhead |", "|:---|" + "---:|" * 7]
    for name, loss, number in (
        ("float32, pruned", "pruned", {}),
        ("float32, fused", "fused", {}),
        ("bf16 autocast, pruned", "pruned", {"dtype": "bfloat16", "autocast": True}),
        ("bf16 autocast, fused", "fused", {"dtype": "bfloat16", "autocast": True}),
    ):
        step, *modules = measured(chosen, f"{chosen.model},loss={loss}", number)
        lines.append(summary(name, step))
        if loss == "pruned" and step.metrics:
            print(f"\n{name}\n")
            print("\n".join(shares(modules)))
    print()
    print("\n".join(lines))


def measured(chosen: argparse.Namespace, model: str, number: Mapping[str, object]) -> list[stopwav.Result]:
    """The results of one run."""
    with tempfile.TemporaryDirectory() as folder:
        record = stopwav.step(
            model,
            device=chosen.device,
            max_frames=chosen.max_frames,
            sort=True,
            steps=chosen.steps,
            rounds=chosen.rounds,
            save=folder,
            **number,  # type: ignore[arg-type]
        )
        return stopwav.results(record)


def shares(modules: list[stopwav.Result]) -> list[str]:
    """Forward and backward of each label, and its share of the layers' forward, with the published one."""
    rows = {str(module.params.get("label")): module for module in modules if module.params.get("label")}
    whole = {part: rows[WHOLE].metrics[f"{part}_time"].value or 0.0 for part in ("forward", "backward")}
    lines = ["| | forward ms | of the layers' | published | backward ms | of the layers' |", "|:---|" + "---:|" * 5]
    for label, published_ms in PUBLISHED.items():
        times = {part: rows[label].metrics[f"{part}_time"].value or 0.0 for part in whole}
        inside = label.startswith(WHOLE)
        cells = [
            f"{1e3 * times['forward']:.2f}",
            f"{times['forward'] / whole['forward']:.1%}" if inside else "",
            f"{published_ms / PUBLISHED[WHOLE]:.1%}" if inside else "",
            f"{1e3 * times['backward']:.2f}",
            f"{times['backward'] / whole['backward']:.1%}" if inside else "",
        ]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def summary(name: str, step: stopwav.Result) -> str:
    """The table row of a run."""
    if not step.metrics:
        return f"| {name} | {step.status} |"
    value = {key: estimate.value or 0.0 for key, estimate in step.metrics.items()}
    times = [f"{1e3 * value[f'{part}_time']:.1f}" for part in ("forward", "loss", "backward")]
    speed = f"{1e3 * value['step_time']:.1f} | {value['frames_per_second']:.0f}"
    peak = format_bytes(value["peak_bytes"]) if "peak_bytes" in value else "–"
    return f"| {name} | {speed} | {' | '.join(times)} | {peak} | {value['overhead']:+.1%} |"


if __name__ == "__main__":
    main()
