"""Facts about hosts, measured: real hosts before servers that meet each kind of fact."""
