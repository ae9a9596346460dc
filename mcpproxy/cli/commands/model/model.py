"""``mcpproxy model URL [OPTION...]``: run a proxy before the interface of a language model.

It is the proxy of ``mcpproxy http``, without a path of its own. The header of the recording says that nothing
in it is MCP. ``--script`` and ``--from`` are in ``model_script``.
"""

from __future__ import annotations

from mcpproxy.base.json_string import quoted
from mcpproxy.cli import new_recording, upstream_options
from mcpproxy.cli.commands import http
from mcpproxy.cli.option_table import OptionTable, refuse, split_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from mcpproxy.cli.option_table import Given

_LISTEN: Final = "127.0.0.1:8766"
_SCRIPT_OPTIONS: Final = ("--script", "--from")
"""Options that replace the service by a model that follows a script."""
_DIALECTS: Final = ("anthropic", "chat", "responses", "gemini")
"""The interfaces of models that are known, by the names that ``--dialect`` takes."""
_MCP_OUTPUT_OPTIONS: Final = ("--otlp", "--otlp-content")
"""Output options of other recordings that concern calls of MCP."""

OPTIONS: Final = OptionTable(
    "model",
    """\
model [OPTION...] URL
       mcpproxy model --script FILE [OPTION...] [-- HOST [ARG...]]
       mcpproxy model --from TRACE""",
    """\
Run a proxy before the interface of a language model: every byte passes as it comes and is recorded, from the
tools that a host offers to the results that it sends back. Nothing is judged. Point the host at the printed
address instead of the service's.""",
    """\
  mcpproxy model https://api.anthropic.com
  ANTHROPIC_BASE_URL=http://127.0.0.1:8766 claude
  mcpproxy prompt model

  mcpproxy model --script turns.jsonl -- claude -p go
  mcpproxy model --script turns.jsonl --help

Anthropic Messages, OpenAI Chat Completions and Responses, Gemini, and what is compatible with them are told
apart by path and shape. Keys are masked as before an MCP server; arguments and results of tools are not, so
they can be compared with what the servers got.
Stop it with Ctrl-C or SIGTERM; the exit code is then 0. It is 2 if the arguments are wrong, if the port is
taken, or if the file or folder that they name cannot be written.""",
    {
        "": (
            ("URL", "", "the service: http(s)://HOST[:PORT][/PATH]; paths of requests pass as they are"),
            ("--listen", "HOST:PORT", f"where to listen; port 0 picks one (default: {_LISTEN})"),
            ("--dialect", "D", f"all conversations are in this one: {', '.join(_DIALECTS)}"),
            ("--prompts", "", "record prompts and answers whole, not only what is about tools"),
            ("--admin", "HOST:PORT", "serve health and metrics there"),
            ("--keep-credentials", "", "record credentials as they are instead of masking them"),
        ),
        "instead of a service": (
            ("--script", "FILE", "be the model oneself: answer by a script"),
            ("--from", "TRACE", "print the script of what a model did in a recording of this command"),
        ),
        "upstream": upstream_options.ROWS,
        "clients": (
            ("--allow-origin", "ORIGIN", "a site whose pages may use the proxy; * for all"),
            ("--cert", "FILE", "speak TLS to clients with this certificate chain (PEM)"),
            ("--key", "FILE", "its private key, if it is not in the same file"),
        ),
        "recording": new_recording.OPTIONS["recording"],
        "output": tuple(row for row in new_recording.OPTIONS["output"] if row[0] not in _MCP_OUTPUT_OPTIONS),
    },
    "model",
)


class ModelOptions(http.HttpOptions):
    """The values of the arguments. The proxy has no path of its own.

    Raises:
        UsageError: a value is not valid.
    """

    command = "model"
    example = "https://api.anthropic.com"

    def __init__(self, given: Given, url: str) -> None:
        super().__init__(given, url, _LISTEN)
        self.dialect = given.text("--dialect")
        if self.dialect and self.dialect not in _DIALECTS:
            refuse("model", f"--dialect {self.dialect} is not known", f"one of {', '.join(_DIALECTS)}")
        self.keeps_prompts = "--prompts" in given

    def _endpoint(self, given: Given) -> str:
        del given
        return ""

    @property
    def has_own_paths(self) -> bool:
        return False

    @property
    def label(self) -> str:
        from mcpproxy.base import paths

        return paths.safe(self.recording.label) or "model"

    def members(self) -> dict[str, str]:
        return {
            "model": quoted(self.dialect or "any"),
            "kept": quoted("everything" if self.keeps_prompts else "tools"),
        }


def run(argv: list[str]) -> int:
    """Serve until terminated, and return the exit code.

    Raises:
        McpProxyError: the arguments are not valid, the port is taken, or the recording cannot be written.
    """
    if any(word.partition("=")[0] in _SCRIPT_OPTIONS for word in split_command(argv)[0]):
        from mcpproxy.cli.commands.model import model_script

        return model_script.run(argv)
    return http.serve(parse(argv))


def parse(argv: list[str]) -> ModelOptions:
    """Read the arguments.

    Raises:
        McpProxyError: the arguments are not valid.
        SystemExit: the help was printed.
    """
    arguments, others = split_command(argv)
    given = OPTIONS.read(arguments)
    urls = list(filter(None, [*given[""], *others]))
    if not urls:
        from mcpproxy.model.dialect import DIALECTS

        services = ", ".join(f"{dialect.title} {dialect.service}" for dialect in DIALECTS.values())
        refuse("model", "the URL of the service is needed", services)
    if len(urls) > 1:
        refuse("model", "one URL is needed", f"run one proxy for each service, such as {urls[0]}")
    options = ModelOptions(given, urls[0])
    if "?" in options.url:
        refuse("model", "the URL has a query", "leave it out: the host sends its own")
    options.recording.check_companions()
    http.check_listening(options)
    return options
