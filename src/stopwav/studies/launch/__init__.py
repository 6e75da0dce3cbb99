"""Where a run measures: on this machine, or on machines of a Ray or Slurm cluster."""
