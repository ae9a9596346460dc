"""The interfaces of language models as data: what a request offers, and what was called and answered."""
