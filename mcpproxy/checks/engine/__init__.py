"""How checks are declared, and how the few checks that apply to a message are found."""
