"""Trims and masks recordings; the original recording is never changed."""
