"""The data path over HTTP: a tunnel that reads request heads and forwards everything else as it is."""
