"""Recognisers behind a protocol: one file per protocol, and `serve`, which puts any engine behind one."""
