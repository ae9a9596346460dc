"""The commands that write a recording in another format."""
