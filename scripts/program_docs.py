#!/usr/bin/env python3
"""Makes man pages and shell completions from the --help output of the programs.

    scripts/program_docs.py --bin build/cpu/bin --out build/cpu/share --version 0.1.0

Writes man/man1/NAME.1, bash-completion/completions/NAME and zsh/vendor-completions/_NAME into --out,
for each program that is named, or for all four. The build does this (cmake/PfcInstall.cmake).
"""

import argparse
import dataclasses
import pathlib
import re
import subprocess
import textwrap

PROGRAMS = ["pfc-coordinator", "pfc-agent", "pfc-worker", "pfcctl"]


@dataclasses.dataclass
class Option:
    names: list[str]  # ["-h", "--help"]
    value: str  # "TEXT=info"; of a flag: empty, or what it needs and excludes
    text: str

    def takes_value(self):
        return bool(self.value) and not self.value.startswith(("Needs:", "Excludes:"))


@dataclasses.dataclass
class Command:
    """A program, or one of its verbs."""

    name: str  # "pfcctl data synth"
    summary: str
    usage: str
    options: list[Option]
    verbs: list["Command"]
    notes: str  # text after the lists: exit codes, examples
    arguments: list[Option] = dataclasses.field(default_factory=list)  # positional arguments: JOB

    def with_verbs(self):
        yield self
        for verb in self.verbs:
            yield from verb.with_verbs()


def help_of(program, verbs):
    """Returns the help text, without defaults that depend on this machine and this user."""
    done = subprocess.run([program, *verbs, "--help"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"program_docs.py: {program} {' '.join(verbs)} --help failed: {done.stderr}")
    text = re.sub(r"(--(?:state|log)-dir TEXT=)\S+", r"\1FOLDER", done.stdout)
    return re.sub(r"(--host TEXT=)\S+", r"\1HOSTNAME", text)


def entries(lines):
    """Yields (left column, text) of a list. Lines that are indented further continue a text."""
    found = []
    for line in lines:
        if re.match(r"  \S", line):
            left, *rest = re.split(r"\s{2,}", line.strip(), maxsplit=1)
            found.append([left, rest[0] if rest else ""])
        elif line.strip() and found:
            found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
    return found


def parse_option(left, text):
    names, _, value = left.partition(" ")
    # A value too wide for the left column comes before the text.
    return Option(names.split(","), value.strip(), text)


def parse(name, text, verb_command):
    """Parses CLI11's help: a summary, the usage, lists under headings, and notes."""
    blocks = [block for block in re.split(r"\n\s*\n|\n(?=\w[\w ]*:\n)", text) if block.strip()]
    head, _, usage = blocks[0].partition("Usage: ")
    command = Command(name, " ".join(head.split()), " ".join(usage.split()), [], [], "")
    notes = []
    for block in blocks[1:]:
        title, *lines = block.strip("\n").split("\n")
        if title.startswith("Usage: "):
            command.usage = " ".join(title[len("Usage: "):].split())
        elif title == "Positionals:":
            command.arguments = [parse_option(*entry) for entry in entries(lines)]
        elif title == "Options:":
            command.options = [parse_option(*entry) for entry in entries(lines)]
        elif title == "Subcommands:":
            command.verbs = [verb_command(entry[0]) for entry in entries(lines)]
        else:
            notes.append(block.strip("\n"))
    command.notes = "\n\n".join(notes)
    return command


def read_command(program, verbs=()):
    name = " ".join([program.name, *verbs])
    return parse(name, help_of(program, verbs),
                 lambda verb: read_command(program, (*verbs, verb)))


def roff(text):
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\n".join("\\&" + line if line.startswith(".") else line for line in escaped.split("\n"))


def roff_options(options):
    for option in options:
        value = f" {roff(option.value)}" if option.value else ""
        yield f".TP\n\\fB{roff(', '.join(option.names))}\\fR{value}\n{roff(option.text)}"


def roff_notes(notes):
    return f".PP\n.nf\n{roff(notes)}\n.fi" if notes else ""


def man_page(command, version):
    summary = command.summary.split(". ")[0].rstrip(".").removeprefix(command.name).strip()
    usage = " ".join(command.usage.split()[len(command.name.split()):])
    parts = [f'.TH {command.name.upper()} 1 "" "pfc {version}" "pfc"',
             f".SH NAME\n{roff(command.name)} \\- {roff(summary)}",
             f".SH SYNOPSIS\n\\fB{roff(command.name)}\\fR "
             f"{roff(usage)}",
             f".SH DESCRIPTION\n{roff(command.summary)}",
             ".SH OPTIONS", *roff_options(command.arguments + command.options)]
    if command.verbs:
        parts.append(".SH COMMANDS")
    for verb in list(command.with_verbs())[1:]:
        parts += [f".SS {roff(verb.name)}", roff(verb.summary), *roff_options(verb.arguments + verb.options),
                  roff_notes(verb.notes)]
    if command.notes:
        parts.append(".SH NOTES\n" + roff_notes(command.notes).removeprefix(".PP\n"))
    others = [name for name in PROGRAMS if name != command.name]
    parts.append(".SH SEE ALSO\n" + ", ".join(f"\\fB{roff(name)}\\fR(1)" for name in others) +
                 "\n.PP\nThe documents in /usr/share/doc/pfc.")
    return "\n".join(part for part in parts if part) + "\n"


def table(command):
    """Returns case branches for a shell: from the verbs of a command line to the words that may follow."""
    lines = []
    for part in command.with_verbs():
        verbs = " ".join(part.name.split()[1:])
        words = [verb.name.split()[-1] for verb in part.verbs]
        words += [name for option in part.options for name in option.names]
        lines.append(f"    '{verbs}') words='{' '.join(words)}' ;;")
    return "\n".join(lines)


def takes_value(command):
    names = {name for part in command.with_verbs() for option in part.options if option.takes_value()
             for name in option.names}
    return "|".join(sorted(names)) or "--"


# Both shells find the verbs among the words before the cursor, without options and their values. Values of options
# are completed as file names.
BASH = """\
# bash completion for {name}; made from its --help.
{function}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous= verbs= words= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
      {values}) ((++i)) ;;
      -*) ;;
      *) verbs+="${{verbs:+ }}${{COMP_WORDS[i]}}" ;;
    esac
  done
  previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  case $previous in
    {values}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  case $verbs in
{table}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o filenames -F {function} {name}
"""

ZSH = """\
#compdef {name}
# zsh completion for {name}; made from its --help.
local verbs= words_here= i
for ((i = 2; i < CURRENT; ++i)); do
  case $words[i] in
    {values}) ((++i)) ;;
    -*) ;;
    *) verbs+="${{verbs:+ }}$words[i]" ;;
  esac
done
case $words[CURRENT-1] in
  {values}) _files; return ;;
esac
case $verbs in
{table}
esac
compadd -- ${{=words_here}}
"""


def bash_completion(command):
    return BASH.format(name=command.name, function="_" + command.name.replace("-", "_"),
                       values=takes_value(command), table=table(command))


def zsh_completion(command):
    return ZSH.format(name=command.name, values=takes_value(command),
                      table=table(command).replace("words=", "words_here="))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write into")
    parser.add_argument("--version", default="", help="shown at the foot of each man page")
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    arguments = parser.parse_args()
    for name in arguments.programs:
        command = read_command(arguments.bin.resolve() / name)
        out = arguments.out
        write(out / "man/man1" / f"{name}.1", man_page(command, arguments.version))
        write(out / "bash-completion/completions" / name, bash_completion(command))
        write(out / "zsh/vendor-completions" / f"_{name}", zsh_completion(command))


if __name__ == "__main__":
    main()
