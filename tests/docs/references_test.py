"""Checks that names in the pages exist: links, files, options, metrics, keys, messages, jobs that parse."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

import pages

BIN = pathlib.Path(os.environ["PFC_BIN"]).resolve()
SOURCES = ("agent", "comm", "common", "coordinator", "data", "kernels", "model", "pfcctl", "proto", "security", "worker")
# Options of other projects' programs.
FOREIGN = {
    "--preset": "cmake and ctest", "--build": "cmake", "--target": "cmake", "--install": "cmake",
    "--prefix": "cmake", "--strip": "cmake", "--parallel": "ctest", "--nproc_per_node": "torchrun",
    "--nnodes": "torchrun", "--node_rank": "torchrun", "--master_addr": "torchrun", "--logdir": "tensorboard",
    "--check-build": "horovodrun", "--lzma2": "xz", "--benchmark_filter": "Google Benchmark",
    "--ntasks": "srun", "--ntasks-per-node": "sbatch and srun", "--gpus-per-node": "sbatch", "--nodes": "sbatch",
    "--signal": "sbatch", "--requeue": "sbatch", "--map-by": "mpirun", "--pernode": "mpirun", "--follow": "kubectl",
    "--always": "git", "--dirty": "git", "--create": "systemd-tmpfiles", "--now": "systemctl",
    **dict.fromkeys(("--tag", "--file", "--rm", "--read-only", "--cap-drop", "--security-opt", "--shm-size", "--tmpfs",
                     "--volume", "--device", "--ulimit"), "podman"),
    "--current": "kubectl", "--namespace": "kubectl", "--from-file": "kubectl",
}
# Messages of the operating system.
SYSTEM = {"No space left on device"}
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
PROGRAMS = ("pfc-coordinator", "pfc-agent", "pfc-worker", "pfcctl")


def helps_of(program, *verbs):
    """Returns {command: its --help output} of the program or verb and of all verbs below it."""
    done = subprocess.run([BIN / program, *verbs, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, (program, verbs, done.stderr)
    found = {" ".join((program, *verbs)): done.stdout}
    for verb in re.findall(r"^  ([a-z-]+) ", done.stdout.partition("Subcommands:")[2], re.MULTILINE):
        found |= helps_of(program, *verbs, verb)
    return found


def help_of(program):
    return "".join(helps_of(program).values())


def sources():
    """Returns the text of all of the project's sources."""
    files = [p for folder in SOURCES for p in (pages.ROOT / folder).rglob("*")
             if p.suffix in (".h", ".cc", ".cu", ".proto")]
    return {p.relative_to(pages.ROOT): p.read_text(encoding="utf-8") for p in files}


def literals(text):
    """Returns the string literals of C++ source; adjacent ones are joined, as the compiler does."""
    literal = r'"((?:[^"\\\n]|\\.)*)"'
    joined = re.sub(r'(?<=[^"(,{ ])"\s+"', "", text)
    return [found.replace('\\"', '"') for found in re.findall(literal, joined)]


class References(unittest.TestCase):
    def test_every_link_leads_to_an_existing_file_and_heading(self):
        for page in pages.pages():
            for line, target in pages.links(page):
                if re.match(r"^[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                file = (page.parent / name).resolve() if name else page
                with self.subTest(page=f"{page.relative_to(pages.ROOT)}:{line}", link=target):
                    self.assertTrue(file.exists(), "no such file")
                    self.assertTrue(file.is_relative_to(pages.ROOT), "outside of the repository")
                    if anchor:
                        self.assertIn(anchor, pages.anchors(file))

    def test_every_named_file_exists(self):
        path = re.compile(r"^(?:[a-z_]+/)+[\w*-]+\.(?:cc|cu|h|md|json|py|sh|proto|cmake|txt)$")
        tops = {p.name for p in pages.ROOT.iterdir()}
        for page in pages.pages():
            for line, span in pages.code_spans(page):
                words = [word for word in span.split() if path.match(word)]
                for word in words:
                    if word.split("/")[0] not in tops - {"build"}:
                        continue
                    with self.subTest(page=f"{page.relative_to(pages.ROOT)}:{line}", file=word):
                        self.assertTrue(list(pages.ROOT.glob(word)), "no such file")

    def test_the_index_lists_every_page(self):
        listed = {(pages.ROOT / "docs" / target.split("#")[0]).resolve()
                  for _, target in pages.links(pages.ROOT / "docs" / "README.md")}
        for page in pages.pages():
            if page.parent == pages.ROOT / "docs" and page.name != "README.md":
                self.assertIn(page, listed, "docs/README.md does not list it")

    def test_every_option_is_one_of_a_program_or_script(self):
        known = set(FOREIGN)
        for program in PROGRAMS:
            known |= set(OPTION.findall(help_of(program)))
        for script in [*(pages.ROOT / "scripts").glob("*.sh"), *(path for folder in ("bench", "deploy", "tests") for path in (pages.ROOT / folder).rglob("*.py"))]:
            known |= set(OPTION.findall(script.read_text()))
        for page in pages.pages():
            text = pages.code_spans(page) + [(b.line, b.text) for b in pages.blocks(page)]
            for line, words in text:
                for option in OPTION.findall(words):
                    self.assertTrue(option in known, f"{page.relative_to(pages.ROOT)}:{line}: no program has {option}")

    def test_every_verbs_help_has_an_example_that_can_be_parsed(self):
        for command, text in helps_of("pfcctl").items():
            examples = re.findall(r"^  (pfcctl .*)", text, re.MULTILINE)
            if "Subcommands:" not in text:
                self.assertIn(command, " ".join(examples), f"{command} --help has no example")
            for example in examples:
                words = shlex.split(re.split(r" [|>] ", example)[0])
                # --log-level is checked after everything else was parsed and before anything is done.
                done = subprocess.run([BIN / words[0], *words[1:], "--log-level", "none"], capture_output=True, text=True)
                self.assertIn("--log-level none: unknown level", done.stderr, example)

    def test_every_block_has_a_language_that_is_tested(self):
        for page in pages.pages():
            for block in pages.blocks(page):
                self.assertIn(block.language, ("", "sh", "json", "python"), str(block))
                if block.language == "python":
                    compile(block.text, str(block), "exec")

    def test_every_metric_on_a_page_is_served(self):
        served = set()
        for folder in ("metrics", "access"):
            for source in (pages.ROOT / "coordinator" / folder).glob("*.cc"):
                served |= set(re.findall(r'"((?:pfc|process)_[a-z_]+)"', source.read_text()))
        self.assertTrue(served)
        name = re.compile(r"(?<![\w:])pfc_(?:job|jobs|host|coordinator|worker|build)_[a-z_]+\b")
        part = re.compile(r"_(?:sum|count|bucket)$")  # of a histogram
        for page in pages.pages():
            for line, text in pages.prose(page) + [(b.line, b.text) for b in pages.blocks(page)]:
                for metric in name.findall(text):
                    known = {metric, part.sub("", metric)} & (served | {"pfc_worker_emulated"})
                    self.assertTrue(known, f"{page.relative_to(pages.ROOT)}:{line}: {metric}")
        for file in (pages.ROOT / "deploy" / "prometheus").glob("*.yml"):
            for metric in name.findall(file.read_text()):
                self.assertIn(part.sub("", metric), served, file.name)
        told = {span for _, span in pages.code_spans(pages.ROOT / "docs" / "metrics.md")}
        self.assertEqual(served - told, set(), "docs/metrics.md does not list them")

    def test_every_message_of_the_troubleshooting_page_is_in_the_sources(self):
        said = "\n".join(text for source in sources().values() for text in literals(source))
        rows = [line for _, line in pages.prose(pages.ROOT / "docs" / "troubleshooting.md")
                if line.startswith("| `")]
        self.assertGreater(len(rows), 20)
        for row in rows:
            symptom = row.split(" | ")[0]
            for message in re.findall(r"`([^`]+)`", symptom):
                for part in message.split("..."):
                    if len(part.strip()) > 3 and message not in SYSTEM:
                        with self.subTest(message=message):
                            self.assertTrue(part.strip() in said, f"no source says {part.strip()!r}")


class Jobs(unittest.TestCase):
    def plan(self, job, name):
        # Adds classes to a job without num_classes, because the plan needs them.
        more = [] if "num_classes" in job else ["--set", "num_classes=10000"]
        if job.get("precision") == "fp16":
            more += ["--set", "device=cuda"]  # a machine without a GPU rejects it
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "job.json"
            file.write_text(json.dumps(job))
            done = subprocess.run([BIN / "pfcctl", "plan", "--config", file, "--workers", "8",
                                   "--device-memory", "80GB", *more], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")
        self.assertIn("it fits", done.stdout, name)

    def test_every_example_is_a_job_that_can_be_planned(self):
        examples = sorted((pages.ROOT / "examples").glob("*.json"))
        self.assertTrue(examples)
        for example in examples:
            self.plan(json.loads(example.read_text()), example.name)

    def test_every_json_block_that_is_not_marked_no_job_is_a_job(self):
        for page in pages.pages():
            for block in pages.blocks(page):
                if block.language != "json":
                    continue
                with self.subTest(block=str(block)):
                    content = json.loads(block.text)
                    if block.values("no") != ["job"]:
                        self.plan(content, str(block))


class MetricsFile(unittest.TestCase):
    def test_the_page_lists_every_key_of_metrics_jsonl(self):
        with tempfile.TemporaryDirectory() as folder:
            data, out = pathlib.Path(folder) / "data", pathlib.Path(folder) / "out"
            job = pathlib.Path(folder) / "job.json"
            job.write_text(json.dumps({
                "network": "mbf", "embedding_size": 64, "batch_size": 4, "max_steps": 1, "num_workers": 1,
                "rec": str(data), "output": str(out), "val_targets": ["val"]}))
            for command in (["pfcctl", "data", "synth", "--identities", "4", "--images-per-identity", "2",
                             "--val-identities", "4", "--val-pairs", "10", "--out", data],
                            ["pfc-worker", "--config", job]):
                # OMP_WAIT_POLICY: spinning threads slow each other down.
                subprocess.run([BIN / command[0], *command[1:]], check=True, capture_output=True,
                               env={**os.environ, "OMP_WAIT_POLICY": "passive"})
            lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        written = set().union(*lines)
        told = {span for _, span in pages.code_spans(pages.ROOT / "docs" / "observability.md")}
        self.assertEqual(written - told, set(), "docs/observability.md does not list them")


if __name__ == "__main__":
    unittest.main()
