"""Damaged and hostile recordings by the thousand: whatever is read, the answer is events or one sentence.

    python -m tests.fuzzers journal --seconds 1800 --seed 7

An execution takes a sound seed, damages it, and reads it as a command would. A finding is anything but a
``McpProxyError``, an execution that takes longer than 5 s, and a peak of memory beyond 512 MiB. A short run
of each target is part of the usual tests.
"""
