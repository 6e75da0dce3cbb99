"""The latency study from Python: run it, read every metric, and read it again from the file."""

import sys

import stopwav

folder = sys.argv[1] if len(sys.argv) > 1 else "stopwav-runs"
record = stopwav.latency(["pocketsphinx"], limit=3, rounds=1, save=folder)

for result in stopwav.results(record):
    print(f"{result.name}: {result.status}, {result.params['utterances']} utterances, {result.params['words']} words")
    for name in ("word_latency_p50", "word_latency_p99", "rtf", "wer"):
        metric = result.metrics[name]
        if metric.value is None:
            print(f"  {name}: none ({metric.note})")
        elif metric.low is None:
            print(f"  {name}: {metric.value:.3f} {metric.unit} ({metric.note})")
        else:
            print(f"  {name}: {metric.value:.3f} {metric.unit} [{metric.low:.3f} to {metric.high:.3f}]")

# Only raw observations are stored: reading the file computes the same numbers again.
again = stopwav.results(stopwav.Record.read(record.path))
same = [result.metrics for result in again] == [result.metrics for result in stopwav.results(record)]
print(f"read again from {record.path.name}: {'the same numbers' if same else 'other numbers'}")
