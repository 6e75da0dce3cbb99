"""The folder of `stopwav step`."""
