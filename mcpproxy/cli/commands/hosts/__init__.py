"""Commands that change the configuration files of hosts."""
