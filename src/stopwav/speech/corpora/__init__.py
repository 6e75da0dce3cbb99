"""Readers of corpora, one file per format."""
