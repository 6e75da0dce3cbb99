"""What is measured: audio, corpora, words and the trace of a stream. Knows no clocks."""
