"""Checks what `cmake --install` installs, and that man pages and completions agree with --help."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

PROGRAMS = ["pfc-coordinator", "pfc-agent", "pfc-worker", "pfcctl"]


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def options_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))


def complete(shell_file, program, *words):
    """Returns the words that bash offers for the last of `words`."""
    line = " ".join(f"'{word}'" for word in (program, *words))
    function = "_" + program.replace("-", "_")
    script = (f"source {shell_file}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; "
              f'{function}; printf "%s\\n" "${{COMPREPLY[@]}}"')
    return output("bash", "-c", script).split()


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.temporary.name)
        output(os.environ["PFC_CMAKE"], "--install", os.environ["PFC_BUILD"], "--prefix",
               cls.temporary.name)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def program(self, name):
        return self.prefix / "bin" / name

    def man_page(self, name):
        return (self.prefix / "share/man/man1" / f"{name}.1").read_text() \
            .replace("\\-", "-").replace("\\fB", "")

    def completion(self, name):
        return self.prefix / "share/bash-completion/completions" / name

    def test_programs_run_from_the_prefix(self):
        for name in PROGRAMS:
            self.assertIn("Usage:", output(self.program(name), "--help"))

    def test_documents_and_examples_are_installed(self):
        folder = self.prefix / "share/doc/pfc"
        for name in ("README.md", "docs/install.md", "docs/configuration.md", "scripts/landmarks_yunet.py",
                     "examples/quickstart.json"):
            self.assertTrue((folder / name).is_file(), name)

    def test_man_pages_name_every_option_of_help_and_no_other(self):
        for name in PROGRAMS:
            page = self.man_page(name)
            self.assertIn(".SH SYNOPSIS", page)
            self.assertEqual(options_of(page), self.options_with_verbs(name), name)

    def options_with_verbs(self, name, *verbs):
        """Returns the options of the program and all its verbs."""
        text = output(self.program(name), *verbs, "--help")
        found = options_of(text)
        lists = text.partition("Subcommands:\n")[2]
        for verb in re.findall(r"^  ([\w-]+) ", lists, re.MULTILINE):
            found |= self.options_with_verbs(name, *verbs, verb)
        return found

    def test_man_pages_have_no_default_of_the_machine_that_built_them(self):
        self.assertNotIn("/tmp", self.man_page("pfc-coordinator"))
        self.assertIn("TEXT=HOSTNAME", self.man_page("pfc-agent"))
        self.assertNotIn(".local/state", self.man_page("pfc-agent"))

    def test_man_pages_have_arguments_in_their_list(self):
        self.assertRegex(self.man_page("pfcctl"), r"\.SS pfcctl submit\n.*\n\.TP\nJOB")

    def test_bash_offers_verbs_and_options(self):
        offered = complete(self.completion("pfcctl"), "pfcctl", "")
        for word in ("check", "data", "plan", "status", "--version"):
            self.assertIn(word, offered)
        self.assertEqual(complete(self.completion("pfcctl"), "pfcctl", "data", "sy"), ["synth"])
        self.assertEqual(complete(self.completion("pfcctl"), "pfcctl", "data", "synth", "--ident"),
                         ["--identities"])
        self.assertEqual(complete(self.completion("pfc-coordinator"), "pfc-coordinator", "--http"),
                         ["--http-port"])

    def test_bash_offers_verbs_after_an_option_with_a_value(self):
        self.assertEqual(
            complete(self.completion("pfcctl"), "pfcctl", "--log-level", "info", "che"), ["check"])

    def test_zsh_has_a_completion_for_each_program(self):
        for name in PROGRAMS:
            text = (self.prefix / "share/zsh/vendor-completions" / f"_{name}").read_text()
            self.assertTrue(text.startswith(f"#compdef {name}\n"))


if __name__ == "__main__":
    unittest.main()
