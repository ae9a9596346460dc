"""The rules and checks that a recording is judged by, including custom rules."""
