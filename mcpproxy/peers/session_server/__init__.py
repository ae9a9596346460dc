"""The parts of a Streamable HTTP server that the bridge and the replay of a server share."""
