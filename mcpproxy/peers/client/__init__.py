"""The parts that all our clients share: those of replay, validate, fuzz, the bridge and the web page."""
