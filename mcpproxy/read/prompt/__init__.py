"""What a model saw of the servers: their tools, calls and results on the wire beside those in the prompt."""
