"""The trace, the file of a recording that people keep: its format, its only writer, its only reader."""
