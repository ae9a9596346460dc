"""The data path over stdio: one loop over the descriptors of host and server."""
