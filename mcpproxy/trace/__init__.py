"""The trace, the recording that people keep: its format, its only writer, its only reader."""
