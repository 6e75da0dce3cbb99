"""Audio, corpora, text, word times, traces of streams and their metrics. Knows no clocks."""
