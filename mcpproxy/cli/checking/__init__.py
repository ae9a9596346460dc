"""Parts of ``mcpproxy check``: its report, many recordings one by one, processes, the progress bar."""
