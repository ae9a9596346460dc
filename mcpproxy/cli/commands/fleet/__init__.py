"""Commands for recordings in object stores."""
