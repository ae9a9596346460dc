"""Recording for ``mcpproxy model``, which stands between a host and the HTTP interface of its language model.

Bodies are masked, turns (requests to the model, with their answers) are counted, and the parts of a
conversation that each request repeats are recorded once.
"""
