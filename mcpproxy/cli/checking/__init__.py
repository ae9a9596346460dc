"""Parts of ``mcpproxy check`` and ``validate``: reports, options about hosts, processes, progress bars."""
