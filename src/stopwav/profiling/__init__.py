"""The profiler for the user's own code: functions and blocks, steps of a loop, and exported traces."""
