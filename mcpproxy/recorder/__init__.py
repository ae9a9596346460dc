"""The second process: follows the journal, frames, has it judged, writes the trace, tells."""
