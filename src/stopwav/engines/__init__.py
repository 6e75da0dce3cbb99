"""Recognisers under test: one file per toolkit, imported only when named. `registry` finds them by name, `protocol`
defines what they must do."""
