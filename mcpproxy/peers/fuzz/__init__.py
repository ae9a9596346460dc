"""The fuzzer: send changed copies of recorded requests to a live server, and report its faults."""
