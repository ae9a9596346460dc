"""How checks are declared and how a message finds the few that concern it."""
