"""Arguments that a shell, cmd.exe or the C library of Windows could read as something else."""

from typing import Final

HOSTILE: Final = (
    "plain",
    "",
    " ",
    "two words",
    " at both ends ",
    "tab\there",
    '"',
    '""',
    '"quoted"',
    'a "quoted" word',
    'one " only',
    "back\\slash",
    "ends with \\",
    "ends with \\\\",
    '\\"',
    '\\\\"',
    '\\\\\\" three',
    "C:\\a folder\\",
    "&",
    "a & calc.exe",
    '" & calc.exe',
    '"&calc.exe&"',
    '\\" & calc.exe & \\"',
    "a | b",
    "a > b",
    "a < b",
    "a && b || c",
    "^",
    "a ^ b ^& c",
    "%",
    "%PATH%",
    "%%PATH%%",
    "100 % of %",
    '%CMDCMDLINE:~-1% & calc.exe "',
    "!PATH!",
    "(a) [b] {c}",
    "a;b,c=d",
    "*.py ?",
    "'single' `ticks` $HOME $(a)",
    "@file /c -- -x",
    "Größe 東京 🙂",
)


def without_percent() -> tuple[str, ...]:
    """Return the arguments that Wine can give to a batch file.

    In a batch file, Wine's cmd.exe expands what ``%*`` or a variable has brought once more. That it is
    Wine's: where the variable ``A`` is ``%OS%``, a batch file with ``echo %A%`` prints the name of the
    system. The line that starts the batch file is right: ``cmd /c echo %%cd:~,%OS%%cd:~,%`` prints ``%OS%``.
    """
    return tuple(argument for argument in HOSTILE if "%" not in argument)
