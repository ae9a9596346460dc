"""Parts of ``mcpproxy check``: its report, its results for many recordings, processes, the progress bar."""
