"""Commands that read and change the configuration files of hosts."""
