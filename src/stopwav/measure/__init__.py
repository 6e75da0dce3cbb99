"""How numbers are measured: clocks, stages, warm-up, stop rule, fresh processes, memory, energy. Knows no speech."""
