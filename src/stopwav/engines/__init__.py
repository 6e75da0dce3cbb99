"""Recognisers under test: one file per toolkit, imported only when named. `registry` finds them, `protocol` says what
they must do."""
