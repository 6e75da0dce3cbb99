"""What do my traces say? Trace a training loop with PyTorch, then read the folder; give a folder to read another."""

import sys
import tempfile

import stopwav


def traced_training(folder: str) -> None:
    """Write one trace of a small training loop; the cycles that are measured come before it, without a profiler."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(80, 256), torch.nn.ReLU(), torch.nn.Linear(256, 32))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    with stopwav.profile_steps(wait=1, warmup=1, active=3, repeat=1, trace=folder) as steps:
        for batch in steps.over(torch.randn(10, 64, 80)):
            optimiser.zero_grad()
            with stopwav.stage("forward"):
                loss = model(batch).square().mean()
            with stopwav.stage("backward"):
                loss.backward()
            optimiser.step()


with tempfile.TemporaryDirectory() as made:
    if len(sys.argv) == 1:
        traced_training(made)
    analysis = stopwav.analyse(sys.argv[1] if len(sys.argv) > 1 else made)

print(f"{len(analysis.files)} traces read, {len(analysis.skipped)} skipped")
for operator in analysis.operators[:3]:
    print(f"{operator.name}: {operator.calls} calls, {1e3 * operator.self_s:.3f} ms of its own")
for timeline in analysis.memory:
    print(f"{timeline.device}: {timeline.peak_bytes} bytes at the peak")
print("no kernels: nothing ran on a device" if analysis.idle_share is None else f"idle: {analysis.idle_share:.0%}")
