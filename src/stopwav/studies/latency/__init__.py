"""The folder of `stopwav latency`."""
