"""The tests mirror the package; README.md beside this file says how to run them."""
