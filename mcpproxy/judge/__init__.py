"""The judge: it takes the events of a recording and returns findings, without any clock, input or output."""
