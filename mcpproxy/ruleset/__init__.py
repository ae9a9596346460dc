"""What a recording is judged by: which rules and which checks, the user's own among them."""
