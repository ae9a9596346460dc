"""The fixtures of each rule: sessions that break it, and similar ones that do not."""
