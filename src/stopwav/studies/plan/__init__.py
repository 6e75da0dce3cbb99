"""`stopwav run`: the studies that a YAML file describes."""
