"""Read requests to language models and their answers: the tools offered, the calls and the results."""
