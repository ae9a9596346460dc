"""Commands about deliberate faults, breakpoints, and the faults that changed requests bring out."""
