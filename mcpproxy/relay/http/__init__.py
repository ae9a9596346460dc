"""The data path over HTTP: a tunnel that reads request heads and passes everything else."""
