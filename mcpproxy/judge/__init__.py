"""An event in, findings out: no clock, no input or output."""
