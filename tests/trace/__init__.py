"""The trace: reading gives what was written, and rejects anything else."""
