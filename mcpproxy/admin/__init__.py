"""The admin port: health, readiness and metrics of a recording, from a thread of the recorder.

Its web server is imported only if the port is asked for.
"""
