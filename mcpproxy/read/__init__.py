"""Read any recording: its calls, its findings, reports, edited copies, files for other programs."""
