"""The data path over HTTP: tunnels that rewrite the heads of requests and forward everything else
unchanged."""
