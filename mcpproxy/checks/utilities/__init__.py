"""Cancellation, progress, logging, pagination, completion, tasks."""
