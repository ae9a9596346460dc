"""The admin port: health, readiness and metrics of a recording, from a thread of the recorder.

Needs what ``pip install 'mcpproxy[admin]'`` installs; nothing is imported unless the port is asked for.
"""
