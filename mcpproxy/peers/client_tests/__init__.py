"""Tests a client: servers of ours, odd and wrong ones, are played to it, and what it does is judged."""
