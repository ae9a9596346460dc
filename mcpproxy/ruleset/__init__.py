"""The rules and checks that a recording is judged by, custom rules included."""
