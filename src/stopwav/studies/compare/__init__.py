"""The folder of `stopwav compare`."""
