"""A server of Streamable HTTP: what the bridge and a replayed server have in common."""
