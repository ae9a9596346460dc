"""The types with which modules declare their checks, and the selection of the checks for a message."""
