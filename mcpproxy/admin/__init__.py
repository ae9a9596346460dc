"""The admin port: health, readiness and metrics of a recording, from a thread of the recorder.

The web server is imported only if there is an admin port.
"""
