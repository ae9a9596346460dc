"""The tests mirror the package; see README.md for the one command that runs them all."""
