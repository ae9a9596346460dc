"""Recording for ``mcpproxy model``, a proxy between a host (the program with the conversation) and the HTTP
interface of its language model.

Bodies are masked, turns (requests to the model, with their answers) are counted, and the parts of a
conversation that each request repeats are recorded once.
"""
