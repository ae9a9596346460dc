"""Tests of ``mcpproxy fuzz``. The fuzzers of our own readers are in ``tests/fuzzers``."""
