"""The data path over stdio: one loop over the descriptors of the host and the server; on Windows, threads."""
