"""The folder of `stopwav grid`."""
