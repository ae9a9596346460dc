"""The rules and checks by which a recording is judged, including custom rules."""
