"""What has happened so far: plain state, no I/O, no clock."""
