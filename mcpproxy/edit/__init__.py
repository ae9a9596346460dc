"""Trims, masks and joins recordings; the original recording is never changed."""
