"""Runs the commands of the pages' ```sh blocks, each page in its own folder.

A comment above a block sets how a test treats it:

    <!-- test: skip REASON -->              runs none of its commands
    <!-- test: setup COMMAND -->            runs before the block
    <!-- test: add PROGRAM OPTIONS -->      appends OPTIONS to every command that begins with PROGRAM
    <!-- test: during COMMAND -->           runs beside the block and is stopped after it; a coordinator
    <!-- test: exit CODE -->                the block's expected exit code (default 0)
    <!-- test: file NAME -->                above any other block: writes its text to this file
    <!-- test: no job -->                   above a JSON block that is not a job file (references_test.py)
    <!-- test: printed -->                  above any other block: output of the commands before it;
                                            numbers after two spaces or at the end of a line may differ

A page's folder has data/ (a small synthetic set), examples/, scripts/, tests/ and build/cpu/bin/. Prints
what was skipped, with the reason. A command that is neither run nor listed here fails the test.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import pages

BIN = pathlib.Path(os.environ["PFC_BIN"]).resolve()
LIMIT = 300  # seconds per block; on an idle machine each takes less than ten
PROGRAMS = {"pfc-coordinator", "pfc-agent", "pfc-worker", "pfcctl"}
SHELL = {"cat", "cd", "cp", "echo", "grep", "head", "jq", "ls", "mkdir", "mv", "rm", "sed", "tail"}
# Keys are first words of commands. scripts_test.py runs every script with --help.
NOT_RUN = {
    "scripts/": "installs packages, builds, or measures for minutes; its --help is tested",
    "apt-get": "installs packages", "apt": "installs packages", "sudo": "needs another user",
    "dpkg": "installs packages", "git": "needs a clone of the repository",
    "cmake": "configures or builds", "ninja": "builds", "cpack": "builds a package",
    "ctest": "runs the tests, of which this is one", "docker": "needs another container",
    "build/cuda/": "needs a build with CUDA", "nvidia-smi": "needs a GPU",
}
DIRECTIVES = {"skip", "setup", "add", "during", "exit", "file", "printed", "no"}


def commands(text):
    """Returns the commands of a block, one per line, without comments and with continued lines joined."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        command = re.sub(r"(^|\s)#(\s.*)?$", "", line).strip()
        if command:
            found.append(command)
    return found


def program_of(command):
    """Returns the program of a command, without leading variables and folder."""
    words = [word for word in command.split() if not re.match(r"^\w+=", word)]
    return words[0] if words else command


class Treatment:
    """Sets what a test does with each command of a block."""

    def __init__(self, block):
        self.run, self.left_out, self.unknown = [], [], []
        reasons = block.values("skip")
        for command in commands(block.text):
            program = program_of(command)
            reason = next((r for p, r in NOT_RUN.items()
                           if program == p or (p.endswith("/") and program.startswith(p))), None)
            if reasons:
                self.left_out.append((command, reasons[0]))
            elif reason:
                self.left_out.append((command, reason))
            elif program.removeprefix("build/cpu/bin/") in PROGRAMS or program in SHELL:
                self.run.append(self.with_options(command, program, block))
            else:
                self.unknown.append(command)

    @staticmethod
    def with_options(command, program, block):
        short = command.replace(program, program.removeprefix("build/cpu/bin/"), 1)
        for added in block.values("add"):
            name, _, options = added.partition(" -")
            if re.search(rf"(^|\s){re.escape(name)}(\s|$)", short):
                command += f" -{options}"
        return command


class PageFolder:
    """The folder in which the commands of one page run."""

    def __init__(self, folder, data):
        self.folder = folder
        (folder / "build" / "cpu").mkdir(parents=True)
        (folder / "build" / "cpu" / "bin").symlink_to(BIN)
        shutil.copytree(data, folder / "data")
        for name in ("examples", "scripts", "tests"):
            (folder / name).symlink_to(pages.ROOT / name)
        # OMP_WAIT_POLICY: spinning threads slow each other down.
        self.environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "OMP_WAIT_POLICY": "passive",
                            "PFC_STATE_DIR": str(folder / "pfc"), "XDG_STATE_HOME": str(folder / "state"),
                            "XDG_CACHE_HOME": str(folder / "cache")}

    def shell(self, script):
        """Runs a script with bash; an error names the failed command."""
        return subprocess.run(["bash", "-euxo", "pipefail", "-c", script], cwd=self.folder,
                              env=self.environment, capture_output=True, text=True, timeout=LIMIT)

    def start(self, command):
        """Starts a coordinator. Returns when its workers train, or when it waits for jobs."""
        process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline and process.poll() is None:
            status = self.shell("pfcctl status")
            if status.returncode == 0 and re.search(r" training |^idle: ", status.stdout, re.MULTILINE):
                return process
            time.sleep(0.2)
        process.kill()
        raise AssertionError(f"{command}: does not begin to train")


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="pfc-docs-"))
        subprocess.run([BIN / "pfcctl", "data", "synth", "--identities", "8", "--images-per-identity", "4",
                        "--val-identities", "6", "--val-pairs", "20", "--size", "32", "--out", cls.folder / "data"],
                       check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def run_block(self, block, here, treatment):
        during = [here.start(command) for command in block.values("during")]
        try:
            done = here.shell("\n".join(block.values("setup") + treatment.run))
        finally:
            for process in during:
                process.send_signal(signal.SIGINT)
                process.wait(timeout=LIMIT)
        expected = int((block.values("exit") or ["0"])[0])
        self.assertEqual(done.returncode, expected, f"{block}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def check_printed(self, block, output):
        """Compares names and words; numbers differ between machines."""
        def words(line):
            return re.sub(r"[: ][\d.]+$", "", re.split(r"(?<=\S)  ", line)[0]).strip()

        self.assertLessEqual({words(line) for line in block.text.splitlines()},
                             {words(line) for line in output.splitlines()}, str(block))

    def run_page(self, page):
        here = PageFolder(self.folder / str(page.relative_to(pages.ROOT)).replace("/", "_"), self.folder / "data")
        output = ""
        for block in pages.blocks(page):
            for name in block.values("file"):
                (here.folder / name).write_text(block.text)
            if block.values("printed"):
                self.check_printed(block, output)
            if block.language != "sh":
                continue
            treatment = Treatment(block)
            self.assertEqual(treatment.unknown, [], f"{block}: neither run nor known; add it to PROGRAMS, "
                             "SHELL or NOT_RUN, or write a '<!-- test: skip REASON -->' above the block")
            for command, reason in treatment.left_out:
                print(f"{block}: not run: {command} ({reason})", file=sys.stderr)
            if treatment.run:
                output = self.run_block(block, here, treatment)

    def test_the_commands_of_every_page_do_what_the_page_says(self):
        for page in pages.pages():
            with self.subTest(page=str(page.relative_to(pages.ROOT))):
                self.run_page(page)

    def test_every_directive_is_known(self):
        for page in pages.pages():
            for block in pages.blocks(page):
                names = {directive.split()[0] for directive in block.directives}
                self.assertLessEqual(names, DIRECTIVES, str(block))
                reasons = block.values("skip")
                self.assertTrue(all(reasons), f"{block}: skip without a reason")


if __name__ == "__main__":
    unittest.main()
