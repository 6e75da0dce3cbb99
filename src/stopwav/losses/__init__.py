"""Transducer losses: the oracle, ours, and one file per other implementation, imported when it is named."""
