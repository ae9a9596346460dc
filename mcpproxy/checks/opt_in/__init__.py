"""What a session is judged by only if somebody asks for it."""
