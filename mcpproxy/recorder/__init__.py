"""The second process: follows the journal, has frames judged, writes the trace, and reports to stderr."""
