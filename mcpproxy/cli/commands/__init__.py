"""The commands, each in a module with its name; the other modules are parts of commands."""
