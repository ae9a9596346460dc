"""What the specification says: parsing and tables, with no memory of what has passed."""
