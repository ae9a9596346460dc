"""The trace, the file of a recording that users keep: its format, its only writer and its reader."""
