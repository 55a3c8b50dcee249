"""Every kind of bad input gives one clear line, a failing exit code and no partial output."""

import json
import os
import socket
import struct
import unittest

from support import BIN, JobTest, plain_set, run


class BadInput(JobTest):
    def fails(self, *words, workers=1, more=(), **keys):
        done = self.train(workers, self.job(**{"max_steps": 1, **keys}), *more)
        self.assert_one_line(done, *words)
        out = self.folder / "out"
        self.assertFalse((out / "backbone.safetensors").exists())
        self.assertEqual(list(out.glob("step-*")) if out.exists() else [], [])
        return done

    def damaged(self, change):
        """Returns a modified copy of the data set."""
        copy = self.copy_of_data("damaged")
        change(copy)
        return str(copy)

    def test_malformed_lists_of_hosts_are_refused(self):
        for hosts, words in (("", ("--hosts",)), ("localhost:0", ("localhost", "slot")),
                             ("localhost:1,localhost:2", ("localhost", "twice")),
                             ("localhost:x", ("localhost:x",)), ("localhost:", ("localhost:",))):
            with self.subTest(hosts=hosts):
                done = run(BIN / "pfc-coordinator", "--hosts", hosts, "--config", self.job(),
                           "--port", 0, "--http-port", 0, env=self.environment)
                self.assert_one_line(done, *words)

    def test_a_host_that_never_registers_is_named(self):
        done = run(BIN / "pfc-coordinator", "--hosts", "localhost:1,absent.invalid:1", "--config",
                   self.job(), "--port", 0, "--http-port", 0, "--start-timeout", "2s",
                   "--state-dir", self.folder / "state", env=self.environment)
        self.assert_one_line(done, "absent.invalid")

    def test_a_wrong_key_or_value_is_named(self):
        for words, keys in ((("bach_size", "batch_size", "job.json"), {"bach_size": 4}),
                            (("lr", "fast", "number"), {"lr": "fast"}),
                            (("train.rec", str(self.folder / "nowhere")), {"rec": str(self.folder / "nowhere")}),
                            (("cfp_fp",), {"val_targets": ["cfp_fp"]}),
                            (("gradient_acc: found 1048576",), {"gradient_acc": 1_048_576}),
                            (("80 images", "batch_size"), {"batch_size": 100}),
                            (("CUDA",), {"device": "cuda"}),
                            (("precision",), {"precision": "fp16", "device": "cpu"})):
            with self.subTest(keys=keys):
                self.fails(*words, **keys)

    def test_a_missing_job_file_is_named(self):
        done = run(*self.coordinator(1, self.folder / "no.json"), env=self.environment)
        self.assert_one_line(done, "no.json")

    def test_a_truncated_rec_is_refused(self):
        def cut(data):
            rec = data / "train.rec"
            rec.write_bytes(rec.read_bytes()[:5000])
        self.fails("train", rec=self.damaged(cut))

    def test_an_index_past_the_end_is_refused(self):
        def stretch(data):
            with open(data / "train.idx", "a") as idx:
                idx.write("999999\t99999999999\n")
        self.fails("train.idx", rec=self.damaged(stretch))

    def test_a_label_outside_the_classes_is_named(self):
        def relabel(data):
            rec = data / "train.rec"
            raw = bytearray(rec.read_bytes())
            offsets = [int(line.split("\t")[1]) for line in (data / "train.idx").read_text().splitlines()
                       if line.split("\t")[0] in {str(k) for k in range(1, 81)}]
            for at in offsets:  # after the RecordIO header (8 bytes) and flag (4): the label
                raw[at + 12:at + 16] = struct.pack("<f", 12345.0)
            rec.write_bytes(raw)
        self.fails("12345", "train.rec", rec=self.damaged(relabel))

    def test_a_verification_set_that_is_not_a_pickle_is_named(self):
        target = self.folder / "no.bin"
        target.write_bytes(b"not a pickle at all")
        self.fails("no.bin", val_targets=[str(target)])

    def test_a_verification_image_that_does_not_decode_is_found_before_the_first_step(self):
        def damage(data):
            val = data / "val.bin"
            raw = bytearray(val.read_bytes())
            begin = raw.rindex(b"\xff\xd8\xff")  # of the last image
            raw[begin + 20:begin + 300] = bytes(280)
            val.write_bytes(raw)
        self.fails("verification set", "val.bin: image 39 (the second of pair 19): ", workers=2,
                   rec=self.damaged(damage), val_targets=["val"], verbose=2000)
        self.assertFalse((self.folder / "out" / "metrics.jsonl").exists())

    def test_a_fifo_instead_of_a_file_is_refused_at_once(self):
        for name in ("train.idx", "property", "val.bin", "train.rec"):
            with self.subTest(name=name):
                copy = self.copy_of_data(name)
                (copy / name).unlink()
                os.mkfifo(copy / name)
                self.fails(f"{name}: not a regular file but a FIFO", rec=str(copy), val_targets=["val"])
        weights = self.folder / "weights"
        os.mkfifo(weights)
        self.fails("weights: not a regular file but a FIFO", init_from=str(weights))

    def test_a_job_file_may_be_a_pipe(self):
        job = self.job(max_steps=1)
        self.succeeded(run("bash", "-c", 'exec "$0" --config <(cat "$1")', BIN / "pfc-worker", job,
                           env=self.environment))

    def test_an_incomplete_index_is_reported(self):
        plain = plain_set(self.data, self.folder / "plain", 40)
        self.fails("found 40 images, but num_image is 80", rec=str(plain), num_image=80)
        done = self.finished(1, self.job(rec=str(plain), max_steps=1))
        self.assertRegex(done.stderr, r"warning: .*train\.idx: \d+ records of .*train\.rec have no line in this index")

    def test_an_index_with_the_same_offset_in_every_line_is_refused(self):
        def repeat(data):
            idx = data / "train.idx"
            idx.write_text("".join(line.split("\t")[0] + "\t0\n" for line in idx.read_text().splitlines()))
        self.fails("train.idx: all 80 lines for images name the same record", rec=self.damaged(repeat))

    def test_a_batch_of_one_sample_for_a_batch_norm_is_refused(self):
        self.fails("batch_size: expected 2 or more, found 1", workers=2, batch_size=1)
        self.fails("batch_size: expected 2 or more, found 1", batch_size=1, sync_bn=True)
        self.finished(2, self.job(batch_size=1, sync_bn=True, max_steps=1))

    def test_pfcctl_plan_says_that_a_job_would_be_refused(self):
        for words, keys in (("precision: found fp16", {"precision": "fp16", "device": "cpu"}),
                            ("80 images, fewer than one batch of 100", {"batch_size": 100}),
                            ("gradient_acc: found 1000", {"gradient_acc": 1000})):
            with self.subTest(words=words):
                done = run(BIN / "pfcctl", "plan", "--config", self.job(**keys), "--device-memory", "80GB")
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertIn("it fits\nbut the job would be refused: ", done.stdout)
                self.assertIn(words, done.stdout)

    def test_a_batch_that_does_not_fit_into_memory_is_refused(self):
        done = self.fails("memory: a worker needs", "activations", "set batch_size to",
                          batch_size=1_000_000)
        self.assertNotIn("SIGKILL", done.stderr)

    def test_classes_that_do_not_fit_into_memory_are_refused(self):
        rec = plain_set(self.data, self.folder / "plain", 20)  # a set without a number of classes
        done = self.fails("memory: a worker needs", "class centres", "classes would fit", workers=2,
                          rec=str(rec), num_classes=16_000_000, embedding_size=65_536)
        self.assertNotIn("SIGKILL", done.stderr)

    def test_a_checkpoint_with_a_wrong_checksum_names_the_one_before(self):
        job = self.job(max_steps=2, save_every_steps=1)
        self.assertEqual(self.train(1, job).returncode, 0)
        file = self.folder / "out" / "step-000000002" / "backbone.safetensors"
        raw = bytearray(file.read_bytes())
        raw[-1] ^= 1
        file.write_bytes(raw)
        done = self.train(1, job, "--set", "resume=true")
        self.assert_one_line(done, "backbone.safetensors", "step-000000001")

    @unittest.skipUnless(os.geteuid() == 0, "mounting a small file system needs root")
    def test_a_full_disk_leaves_the_last_good_checkpoint(self):
        small = self.folder / "small"
        small.mkdir()
        # A checkpoint of mbf takes about 15 MB: one fits, two do not.
        mounted = run("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", small)
        if mounted.returncode != 0:
            self.skipTest("no tmpfs can be mounted here: " + mounted.stderr.strip())
        try:
            done = self.train(2, self.job(max_steps=3, save_every_steps=1, output=str(small / "out")))
            self.assert_one_line(done, str(small), "space")
            kept = [p.parent.name for p in (small / "out").glob("step-*/manifest.json")]
            self.assertEqual(kept, ["step-000000001"])
            self.assertEqual(list((small / "out").glob(".step-*")), [], "parts were left behind")
            self.assertFalse((small / "out" / "backbone.safetensors").exists())
        finally:
            run("umount", small)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = run(BIN / "pfc-coordinator", "--hosts", "localhost:1", "--config", self.job(),
                       "--port", port, "--http-port", 0, env=self.environment)
            self.assert_one_line(done, str(port), "in use")

    def test_a_worker_without_a_coordinator_names_bad_input(self):
        done = run(BIN / "pfc-worker", "--config", self.job(lr=-1), env=self.environment)
        self.assert_one_line(done, "lr", code=2)

    def test_every_program_accepts_version_and_help_and_rejects_a_mistyped_option(self):
        for program in ("pfc-coordinator", "pfc-agent", "pfc-worker", "pfcctl"):
            self.assertRegex(run(BIN / program, "--version").stdout, r"^\d+\.\d+\.\d+\n$")
            self.assertIn("--version", run(BIN / program, "-h").stdout)
            done = run(BIN / program, "--verion")
            self.assert_one_line(done, "did you mean --version?", code=2)
            self.assertTrue(done.stderr.startswith(program + ": error: "), done.stderr)

    def test_pfcctl_check_says_what_this_machine_can_do(self):
        done = self.succeeded(run(BIN / "pfcctl", "check", "--json"))
        json.loads(done.stdout)


if __name__ == "__main__":
    unittest.main()
