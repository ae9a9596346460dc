"""What mcpproxy costs, measured: ``python -m tests.benchmarks stdio``."""
