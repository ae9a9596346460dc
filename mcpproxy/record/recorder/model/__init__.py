"""What the recorder does before a model's interface: mask bodies, count turns, keep what is new."""
