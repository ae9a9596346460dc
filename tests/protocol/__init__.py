"""What the specification says, as data and parsing."""
