"""`stopwav latency`: how long a listener waits for each word, and why."""
