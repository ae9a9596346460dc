"""Tests a client with servers of ours, some unusual and some wrong, and judges what the client does."""
