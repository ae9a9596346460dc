"""The data path over HTTP: tunnels that rewrite the heads of requests and addresses in some answers, and
forward everything else unchanged."""
