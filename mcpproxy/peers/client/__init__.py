"""What every client of ours does alike: replay, validate, fuzz, the bridge and the page."""
