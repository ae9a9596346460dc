"""The options that choose hosts, whose limits a server is then held against."""

import argparse


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--hosts",
        action="append",
        metavar="HOST,...",
        help="report what these hosts refuse, lose or change: codex, codex@0.171.0, seen (the client), all",
    )
    parser.add_argument(
        "--hosts-grade",
        metavar="GRADE",
        help="also by facts no better than this: changelog, document, thread (default: source)",
    )
