"""Trim and mask copies of recordings. The original is never changed."""
