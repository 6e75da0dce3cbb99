"""`stopwav grid`: is it real-time, and does it fit."""
