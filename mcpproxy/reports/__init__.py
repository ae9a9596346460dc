"""What people and machines get to read: one output format per file, pure functions to lines of text."""
