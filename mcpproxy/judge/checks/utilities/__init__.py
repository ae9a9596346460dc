"""Checks of cancellation, progress, logging, pagination, completion and tasks."""
