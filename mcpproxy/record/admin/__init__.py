"""The admin port: a thread of the recorder serves the health, readiness and metrics of a recording over HTTP.

The web server is imported only if the user asks for an admin port.
"""
