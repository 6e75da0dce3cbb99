"""`stopwav step`: where a training step goes."""
