"""The recording that people keep: its format, its one writer, its one reader."""
