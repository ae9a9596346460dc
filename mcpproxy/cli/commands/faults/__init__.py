"""Commands about faults on purpose and breakpoints."""
