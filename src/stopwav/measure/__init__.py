"""How numbers are taken: clocks, stages, warm-up, stop rule, fresh processes, memory, energy. Knows no speech."""
