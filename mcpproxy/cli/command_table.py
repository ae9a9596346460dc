"""The commands of ``mcpproxy``. ``run`` of a server does not import this module."""

COMMANDS = {
    "Record": {
        "run": ("mcpproxy.cli.commands.run", "wrap a stdio server: forward, record and judge every message"),
        "http": ("mcpproxy.cli.commands.http", "the same before an HTTP server, as a proxy"),
        "model": (
            "mcpproxy.cli.commands.model.model",
            "before a model's interface: tools, calls and results as the model sees them",
        ),
        "bridge": (
            "mcpproxy.cli.commands.bridge.bridge",
            "between stdio and HTTP, both sides recorded and judged",
        ),
        "demo": ("mcpproxy.cli.commands.demo", "watch it work on a small bundled server"),
    },
    "Hosts": {
        "hosts": (
            "mcpproxy.cli.commands.hosts.hosts",
            "the servers in the files of all hosts, and which are wrapped",
        ),
        "wrap": ("mcpproxy.cli.commands.hosts.wrap", "put mcpproxy before a server in the file of its host"),
        "unwrap": ("mcpproxy.cli.commands.hosts.unwrap", "take it out again, to the byte"),
    },
    "Read": {
        "list": ("mcpproxy.cli.commands.list", "recent recordings and how they ended"),
        "show": ("mcpproxy.cli.commands.show", "the conversation in a recording, finished or running"),
        "tui": (
            "mcpproxy.cli.commands.view.tui",
            "recordings in the terminal: sessions, calls, details, live",
        ),
        "ui": ("mcpproxy.cli.commands.view.ui", "recordings in the browser: calls, timing, findings, live"),
        "mcp": ("mcpproxy.cli.commands.view.mcp", "recordings for agents: an MCP server that only reads"),
        "stats": (
            "mcpproxy.cli.commands.view.stats",
            "counts, latencies, sizes and tokens per tool and method",
        ),
        "auth": ("mcpproxy.cli.commands.view.auth", "a login as numbered steps, and why it failed"),
        "prompt": ("mcpproxy.cli.commands.view.prompt", "what the model saw of tools, calls and results"),
        "prune": ("mcpproxy.cli.commands.prune", "delete recordings that are older than an age"),
    },
    "Replay": {
        "replay": ("mcpproxy.cli.commands.replay.replay", "a recording replaces the server or the client"),
        "diff": ("mcpproxy.cli.commands.diff", "what a server did in two recordings, compared"),
        "trim": ("mcpproxy.cli.commands.trim", "the smallest part of a recording that still replays"),
        "export": (
            "mcpproxy.cli.commands.export.export",
            "as one HTML file, or for browsers, Wireshark, OpenTelemetry",
        ),
        "redact": ("mcpproxy.cli.commands.redact", "a copy of a recording with secrets masked"),
        "import": (
            "mcpproxy.cli.commands.import_",
            "a trace of a host's log, or of what another recorder kept",
        ),
    },
    "Faults": {
        "faults": (
            "mcpproxy.cli.commands.faults.faults",
            "ready-made sets of faults, and what rules would do to a recording",
        ),
        "breakpoints": (
            "mcpproxy.cli.commands.faults.breakpoints",
            "messages that --break holds: let them go, change or drop them",
        ),
        "fuzz": (
            "mcpproxy.cli.commands.faults.fuzz",
            "what a server does wrong with changed copies of recorded requests",
        ),
    },
    "Judge": {
        "validate": (
            "mcpproxy.cli.commands.validate",
            "probe a server, or a client, and report",
        ),
        "check": ("mcpproxy.cli.commands.check", "judge recordings again; exit code 1 if a rule was broken"),
        "rules": ("mcpproxy.cli.commands.rules", "all rules and how strict each protocol revision is"),
        "pin": ("mcpproxy.cli.commands.pin", "approve the tools of a server, for check --pins"),
        "versions": ("mcpproxy.cli.commands.versions", "which implementation spoke which revision"),
        "explain": ("mcpproxy.cli.commands.explain", "what a rule means, why it matters, what to do instead"),
    },
    "Fleet": {
        "ship": ("mcpproxy.cli.commands.fleet.ship", "closed recordings to an object store, each once"),
        "verify": (
            "mcpproxy.cli.commands.fleet.verify",
            "whether everything that was shipped is there and unchanged",
        ),
        "fleet": ("mcpproxy.cli.commands.fleet.fleet", "what the recordings of many servers say together"),
    },
    "Shell": {
        "completion": ("mcpproxy.cli.commands.completion", "completion for bash, zsh and fish; the man page"),
    },
}
"""Group -> command -> its module, which has a function ``run(argv) -> int``, and its line in the help."""
