"""`stopwav compare`: which model to ship."""
