"""The folder of `stopwav plan`."""
