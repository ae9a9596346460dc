"""Recordings made smaller, masked or joined; the recording that was read is never changed."""
