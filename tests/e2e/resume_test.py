"""Stopped and resumed training gives the same bits as uninterrupted training."""

import json
import os
import pathlib
import random
import shutil
import signal
import time
import unittest

from support import BIN, LIMIT, JobTest, digest, run

HAS_BF16 = "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()


def centres(folder):
    return {p.name: digest(p) for p in sorted(folder.glob("centres-*.safetensors"))}


class Resume(JobTest):
    def outputs(self, name, step):
        out = self.folder / name
        return digest(out / "backbone.safetensors"), centres(out / f"step-{step:09d}")

    def resumes_with_the_same_bits(self, after, **keys):
        """Compares an uninterrupted job with one that ends after this step and resumes. Returns that job's file."""
        self.finished(2, self.job("a.json", output=str(self.folder / "a"), **keys))
        b = self.job("b.json", output=str(self.folder / "b"), **keys)
        self.finished(2, b, "--set", f"max_steps={after}")
        self.finished(2, b, "--set", "resume=true")
        self.assertEqual(self.outputs("a", keys["max_steps"]), self.outputs("b", keys["max_steps"]))
        return b

    def test_a_resume_without_a_checkpoint_reports_it_and_starts_at_step_1(self):
        done = self.finished(1, self.job(max_steps=1, resume=True))
        self.assertIn("resume: no checkpoint in " + str(self.folder / "out"), done.stdout)

    def test_a_stopped_and_resumed_job_gives_the_bits_of_an_uninterrupted_one(self):
        # An epoch has 20 global batches of two workers, so the job resumes in the middle of one.
        keys = dict(batch_size=2, max_steps=200, num_epoch=10, sample_rate=0.5)
        self.finished(2, self.job("a.json", output=str(self.folder / "a"), **keys))
        b = self.job("b.json", output=str(self.folder / "b"), **keys)
        self.finished(2, b, "--set", "max_steps=10")
        process = self.start(2, b, "--set", "resume=true")
        lines = self.read_until(process, "Global Step: 12 ")
        rest = self.stopped(process)
        self.assertIn("next is step 11", "".join(lines))
        self.assertIn("checkpoint written", rest)
        self.assertEqual(self.processes(), [])
        self.finished(2, b, "--set", "resume=true")
        self.assertEqual(self.outputs("a", 200), self.outputs("b", 200))
        self.assertEqual(self.of_steps("step", "b"),
                         list(range(1, 201)))

    def test_centres_kept_as_bf16_resume_with_the_same_bits_and_also_as_fp32(self):
        b = self.resumes_with_the_same_bits(2, batch_size=2, max_steps=4, num_epoch=2, centre_precision="bf16")
        self.finished(2, b, "--set", "resume=true", "--set", "max_steps=5", "--set",
                      "centre_precision=fp32")
        sizes = [(self.folder / f"b/step-{step:09d}/centres-00000-of-00002.safetensors").stat().st_size
                 for step in (4, 5)]
        self.assertGreater(sizes[1], 1.6 * sizes[0])

    def test_centres_of_one_byte_resume_with_the_same_bits_and_also_as_fp32(self):
        keys = dict(batch_size=2, max_steps=4, num_epoch=2, sample_rate=0.5, centre_precision="int8")
        b = self.resumes_with_the_same_bits(2, **keys)
        self.finished(1, b, "--set", "resume=true", "--set", "max_steps=5", "--set", "centre_precision=fp32")

    def test_fp8_centres_without_momentum_resume_with_the_same_bits_and_also_with_momentum(self):
        keys = dict(batch_size=2, max_steps=4, num_epoch=2, sample_rate=0.5, centre_precision="fp8")
        b = self.resumes_with_the_same_bits(2, centre_momentum=0, **keys)
        with open(self.folder / "b/step-000000004/centres-00000-of-00002.safetensors", "rb") as file:
            self.assertNotIn(b'"momentum', file.read(4096))
        self.finished(1, b, "--set", "resume=true", "--set", "max_steps=5", "--set", "centre_momentum=0.9")

    def test_centres_on_disk_give_the_bits_of_centres_in_memory_and_resume_either_way(self):
        keys = dict(batch_size=2, max_steps=6, num_epoch=2, sample_rate=0.3, save_every_steps=1)
        self.finished(2, self.job("a.json", output=str(self.folder / "a"), **keys))
        b = self.job("b.json", output=str(self.folder / "b"), centre_storage="disk", centre_cache=1, **keys)
        done = self.finished(2, b, "--set", "max_steps=2")
        self.assertRegex(done.stdout, r"class centres on disk: [0-9.]+ % of .* were in the cache, read .*, wrote .*, waited")
        self.finished(2, b, "--set", "resume=true", "--set", "max_steps=4")
        self.finished(2, b, "--set", "resume=true", "--set", "centre_storage=device")
        self.assertEqual(self.outputs("a", 6), self.outputs("b", 6))
        self.finished(1, b, "--set", "resume=true", "--set", "max_steps=7")
        self.finished(2, b, "--set", "resume=true", "--set", "max_steps=8")

    def test_centres_on_disk_continue_in_place_after_kills_at_random_moments(self):
        keys = dict(batch_size=2, max_steps=60, num_epoch=10, sample_rate=0.3, save_every_steps=3)
        a, b = self.folder / "a", self.folder / "b"
        self.finished(2, self.job("a.json", output=str(a), **keys))
        job = self.job("b.json", output=str(b), centre_storage="disk", centre_cache=1, keep_checkpoints=2, resume=True, **keys)
        for step in (9, 14, 22, 30):
            process = self.start(2, job, "--max-restarts", 1, until=f"Global Step: {step} ")
            if step == 9:  # the other worker's process stays, and takes over its tables once more
                os.kill(self.workers()[1], signal.SIGKILL)
                self.read_until(process, "resumed from ")
            time.sleep(random.uniform(0, 0.3))
            for pid in self.processes():
                os.kill(pid, signal.SIGKILL)
            process.communicate(timeout=LIMIT)
        tables = list(b.glob("class_centres.*"))
        self.assertEqual(len(tables), 1, tables)
        newest, older, *_ = sorted(b.glob("step-*"), reverse=True)
        newest.rename(self.folder / "moved")
        done = self.finished(2, job, "--set", "max_steps=58")
        self.assertIn(f"resumed from {older}", done.stdout)
        self.assertEqual(list(b.glob("class_centres.*")), tables)
        files = {path.name: path.stat().st_size for path in tables[0].iterdir()}
        self.assertEqual(len([name for name in files if ".undo-" in name]), 4, files)
        self.finished(2, job, "--set", "centre_storage=device")
        self.assertEqual(self.outputs("a", 60), self.outputs("b", 60))
        self.finished(2, job, "--set", "centre_storage=device", "--set", "max_steps=61")
        self.assertEqual(list(b.glob("class_centres.*")), [])

    def test_centres_on_disk_need_no_logs_of_checkpoints_that_are_not_used(self):
        job = self.job(max_steps=2, save_every_steps=1, centre_storage="disk", centre_cache=1)
        self.finished(1, job)
        (log,) = (self.folder / "out").glob("class_centres.*/*.undo-000000001.*")
        log.unlink()
        self.finished(1, job, "--set", "resume=true", "--set", "max_steps=3")
        next((self.folder / "out").glob("step-000000002")).rename(self.folder / "two")
        next((self.folder / "out").glob("step-000000003")).rename(self.folder / "three")
        refused = self.train(1, job, "--set", "resume=true")
        self.assert_one_line(refused, "00000-of-00001.json: does not list checkpoint 000000001.")

    def test_a_teacher_with_centres_on_disk_gives_the_same_bits(self):
        keys = dict(batch_size=2, max_steps=3, num_epoch=2, sample_rate=0.5)
        for storage, name in (("device", "a"), ("disk", "b")):
            teacher = self.folder / storage
            self.finished(2, self.job("teacher.json", output=str(teacher), save_every_steps=2, centre_storage=storage, **keys))
            self.finished(2, self.job(output=str(self.folder / name), teacher=str(teacher / "backbone.safetensors"),
                                      distill_embeddings="none", distill_logits=2, **keys))
        self.assertEqual(self.outputs("a", 3), self.outputs("b", 3))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "not run: this machine has one core")
    def test_a_resume_computes_with_as_many_threads_as_before(self):
        keys = dict(max_steps=4, num_epoch=2)
        share = self.environment
        self.environment = {**share, "OMP_NUM_THREADS": "1"}
        self.finished(1, self.job("a.json", output=str(self.folder / "a"), **keys))
        b = self.job("b.json", output=str(self.folder / "b"), **keys)
        self.finished(1, b, "--set", "max_steps=2")
        self.environment = share
        done = self.finished(1, b, "--set", "resume=true")
        self.assertRegex(done.stderr, r"worker 0 on host \S+ computes with 1 thread as before, to keep the results bit-identical")
        self.assertEqual(self.outputs("a", 4), self.outputs("b", 4))
        self.environment = {**share, "OMP_NUM_THREADS": "2"}
        done = self.finished(1, b, "--set", "resume=true", "--set", "max_steps=5")
        self.assertRegex(done.stderr, r"computes with 2 threads instead of 1 as before, because OMP_NUM_THREADS is set")

    @unittest.skipUnless(HAS_BF16, "not run: no AVX512_BF16")
    def test_a_bf16_step_gives_the_same_bits_repeated_or_resumed_and_continues_in_fp32(self):
        keys = dict(batch_size=2, max_steps=4, num_epoch=2, sample_rate=0.5, precision="bf16")
        b = self.resumes_with_the_same_bits(2, **keys)
        self.finished(2, self.job("c.json", output=str(self.folder / "c"), **keys))
        self.assertEqual(self.outputs("a", 4), self.outputs("c", 4))
        done = self.finished(2, b, "--set", "resume=true", "--set", "max_steps=5", "--set", "precision=fp32")
        self.assertIn("next is step 5", done.stdout)

    def test_a_resume_in_another_order_reports_that_images_repeat(self):
        job = self.job(max_steps=2)
        self.finished(1, job)
        done = self.finished(1, job, "--set", "resume=true", "--set", "max_steps=3", "--set", "seed=7")
        self.assertRegex(done.stdout, r"next is step 3; seed changed from \d+ to 7: some of the remaining \d+ images of epoch 0 repeat")

    def test_a_resume_with_another_batch_repeats_images_only_in_sequential_reading(self):
        for read in ("random", "sequential"):
            job = self.job(max_steps=2, read=read, output=str(self.folder / read))
            self.finished(1, job)
            done = self.finished(1, job, "--set", "resume=true", "--set", "max_steps=3", "--set", "batch_size=3")
            self.assertIn("next is step 3", done.stdout)
            told = "the batch of all workers changed from 4 to 3: some of the remaining " in done.stdout
            self.assertEqual(told, read == "sequential", done.stdout)

    def test_adamw_resumes_with_the_same_bits_while_centres_have_updates_outstanding(self):
        self.resumes_with_the_same_bits(6, batch_size=2, max_steps=12, num_epoch=2, sample_rate=0.2, sample_hold=5,
                                        optimizer="adamw", lr=1e-3, weight_decay=0.1)
        with open(self.folder / "b/step-000000006/centres-00000-of-00002.safetensors", "rb") as file:
            self.assertIn(b'"updated"', file.read(4096))

    def test_blocks_of_classes_resume_with_the_same_bits_and_also_at_other_positions(self):
        keys = dict(batch_size=2, max_steps=6, num_epoch=2, sample_rate=0.3, sample_unit=2, sample_hold=2)
        b = self.resumes_with_the_same_bits(3, **keys)
        manifest = json.loads((self.folder / "b/step-000000006/manifest.json").read_text())
        self.assertEqual(manifest["positions"], {"sample_unit": 2, "seed": manifest["job"]["seed"]})
        for step, unit, workers in ((7, 2, 1), (8, 1, 2), (9, 4, 2)):
            self.finished(workers, b, "--set", "resume=true", "--set", f"max_steps={step}", "--set", f"sample_unit={unit}")
        refused = self.train(1, self.job("c.json", output=str(self.folder / "c"), **{**keys, "sample_unit": 6}))
        self.assertIn("sample_unit: expected a power of two from 1 to 64, found 6", refused.stdout + refused.stderr)

    def test_hard_negatives_resume_with_the_same_bits_between_two_searches_for_neighbours(self):
        keys = dict(batch_size=2, max_steps=8, num_epoch=2, sample_rate=0.5, sampler="hard", hard_neighbours=2, hard_refresh=3,
                    save_every_steps=1, keep_checkpoints=8)
        b = self.resumes_with_the_same_bits(5, **keys)  # with the neighbours of step 3
        files = [self.folder / f"b/step-{step:09d}/neighbours.safetensors" for step in range(1, 9)]
        self.assertEqual([file.exists() for file in files], [False, False] + 6 * [True])
        found = [digest(file) for file in files[2:]]
        self.assertEqual([found[0]] * 3 + [found[3]] * 3, found)
        self.assertNotEqual(found[0], found[3])
        random = {**keys, "sampler": "random"}
        self.finished(2, self.job("c.json", output=str(self.folder / "c"), **random))
        self.assertNotEqual(self.outputs("a", 8), self.outputs("c", 8))
        for step, workers, change in ((9, 1, "sample_unit=2"), (10, 2, "hard_neighbours=3"), (11, 2, "sampler=random")):
            self.finished(workers, b, "--set", "resume=true", "--set", f"max_steps={step}", "--set", change)

    def test_adaface_resumes_with_the_same_bits_and_its_running_lengths(self):
        self.resumes_with_the_same_bits(3, batch_size=2, max_steps=6, num_epoch=2, gradient_acc=2,
                                        loss={"name": "adaface", "t_alpha": 0.5})
        state = [json.loads((self.folder / f"b/step-{step:09d}/manifest.json").read_text())["loss_state"] for step in (3, 6)]
        self.assertNotEqual(state[0], state[1])
        self.assertNotIn(20.0, [each["length_mean"] for each in state])

    def test_curricularface_resumes_with_the_same_bits(self):
        self.resumes_with_the_same_bits(3, batch_size=2, max_steps=6, num_epoch=2, sample_rate=0.5, loss="curricularface")
        self.assertNotEqual(0, json.loads((self.folder / "b/step-000000003/manifest.json").read_text())["loss_state"]["target_cosine"])

    def test_uniface_resumes_with_the_same_bits(self):
        self.resumes_with_the_same_bits(3, batch_size=2, max_steps=6, num_epoch=2, sample_rate=0.5, gradient_acc=2, loss="uniface")

    def test_elastic_margins_resume_with_the_same_bits(self):
        self.resumes_with_the_same_bits(3, batch_size=2, max_steps=6, num_epoch=2, loss={"name": "elastic_arcface", "std": 0.3})

    def test_sub_centres_resume_with_the_same_bits_and_move_to_three_workers(self):
        b = self.resumes_with_the_same_bits(3, batch_size=2, max_steps=6, num_epoch=2, sample_rate=0.5, sub_centres=3)
        done = self.finished(3, b, "--set", "resume=true", "--set", "max_steps=8")
        self.assertIn("next is step 7", done.stdout)
        refused = self.train(2, b, "--set", "resume=true", "--set", "sub_centres=1")
        self.assert_one_line(refused, "sub_centres is 3, but this job's is 1")

    def test_a_smoothed_softmax_resumes_with_the_same_bits_and_moves_to_three_workers(self):
        b = self.resumes_with_the_same_bits(3, batch_size=2, max_steps=6, num_epoch=2, sample_rate=0.5, loss="softmax",
                                            margin_scale=None, label_smoothing=0.1)
        with open(self.folder / "b/step-000000006/manifest.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file)["embedding_size"], 1 + json.loads(b.read_text())["embedding_size"])
        done = self.finished(3, b, "--set", "resume=true", "--set", "max_steps=8")
        self.assertIn("next is step 7", done.stdout)
        refused = self.train(2, b, "--set", "resume=true", "--set", "loss=margin")
        self.assert_one_line(refused, "embedding_size (plus 1 for a bias) is 65, but this job's is 64")

    def test_a_distilled_job_moves_to_three_workers_and_refuses_another_teacher(self):
        self.finished(1, self.job("teacher.json", output=str(self.folder / "teacher"), max_steps=1))
        teacher = str(self.folder / "teacher/backbone.safetensors")
        job = self.job(batch_size=2, num_epoch=2, max_steps=3, teacher=teacher, distill_weight=10, save_every_steps=2)
        plan = json.loads(run(BIN / "pfcctl", "plan", "--config", job, "--workers", 2, "--json").stdout)
        self.assertIn("teacher", [part["name"] for part in plan["parts"]])
        done = self.finished(2, job)
        self.assertRegex(done.stdout, r"Loss [0-9.]+   Distillation Loss [0-9.]+   LearningRate")
        self.finished(3, job, "--set", "resume=true", "--set", "max_steps=4")
        losses = self.of_steps("distillation_loss")
        self.assertEqual(len(losses), 4)
        self.assertTrue(all(0 < loss < 2 for loss in losses), losses)
        again = ("--set", "resume=true", "--set", "max_steps=5", "--set")
        self.assert_one_line(self.train(2, job, *again, "embedding_size=32"), "teacher: " + teacher,
                             "has embedding size 64, expected the job's 32")
        self.assert_one_line(self.train(2, job, *again, f"teacher={self.folder}/none"), f"teacher: {self.folder}/none")

    def test_a_job_that_learns_logits_resumes_with_the_same_bits_and_moves_to_three_workers(self):
        folder = self.folder / "teacher"
        self.finished(2, self.job("teacher.json", output=str(folder), max_steps=2, batch_size=2, sample_rate=0.3))
        b = self.resumes_with_the_same_bits(3, batch_size=2, max_steps=6, num_epoch=2, sample_rate=0.5, gradient_acc=2,
                                            teacher=str(folder / "backbone.safetensors"), distill_embeddings="none",
                                            distill_logits=2)
        again = ("--set", "resume=true", "--set")
        done = self.finished(3, b, *again, "max_steps=8")
        self.assertIn("next is step 7", done.stdout)
        self.assertRegex(done.stdout, r"Loss [0-9.]+   Logits Loss [0-9.]+   LearningRate")
        self.assert_one_line(self.train(2, b, *again, "sub_centres=2"), "distill_logits: found 2.0, but sub_centres is 2")
        next(folder.glob("step-*")).rename(self.folder / "elsewhere")
        self.assert_one_line(self.train(2, b, *again, "max_steps=9"), "found no class centres in the file or its folder")

    def test_images_with_several_labels_resume_with_the_same_bits_and_move_to_three_workers(self):
        people = self.folder / "people"
        self.succeeded(run(BIN / "pfcctl", "data", "unpack", self.data, "--out", people))
        listed = [line.split("\t") for line in (people / "train.lst").read_text().splitlines()]
        classes = 1 + max(int(label) for _, label, _ in listed)
        (people / "list.tsv").write_text("".join(
            f"{path}\t{label}" + (f",{(int(label) + 1) % classes}" if int(number) % 2 else "") + "\n"
            for number, label, path in listed))
        b = self.resumes_with_the_same_bits(3, rec=str(people / "list.tsv"), batch_size=2, max_steps=6, num_epoch=2,
                                            sample_rate=0.5, val_rec=str(people / "list.tsv"))
        self.assertEqual(
            json.loads((self.folder / "b/step-000000006/manifest.json").read_text())["job"]["labels_per_image"], 2)
        done = self.finished(3, b, "--set", "resume=true", "--set", "max_steps=8")
        self.assertIn("next is step 7", done.stdout)
        refused = self.train(2, b, "--set", "resume=true", "--set", "loss=adaface", "--set", "max_steps=9")
        self.assert_one_line(refused, 'loss: found "adaface", but images of', "list.tsv have up to 2 labels")

    def test_a_checkpoint_of_four_workers_resumes_with_one_and_with_three(self):
        # The rate changes at the first resumed step. All workers evaluate and write the average.
        keys = dict(batch_size=2, num_epoch=3, max_steps=4, ema_decay=0.9, sample_rate=[[0, 0.5], [0.8, 1]],
                    sample_correction=True, margin_update={"end_epoch": 2}, lr_schedule="cosine")
        out = self.folder / "out"
        self.finished(4, self.job(**keys))
        self.assertEqual(json.loads((out / "step-000000004/manifest.json").read_text())["world_size"], 4)
        # 2 of the 6 planned steps are left: 16 images, which are 8 steps of 2, or 3 steps of 6 with 2 images too many.
        for workers, steps in ((1, 8), (3, 3)):
            copy = self.folder / f"with-{workers}"
            shutil.copytree(out, copy)
            done = self.finished(workers, self.job(**{**keys, "max_steps": 6, "resume": True, "output": str(copy)}))
            self.assertIn("next is step 5", done.stdout)
            self.assertIn(f"instead of 8 images (4 workers x batch_size 2 x gradient_acc 1), so the job ends after step "
                          f"{4 + steps}; lr is multiplied by {workers / 4:g} (lr_scaling)", done.stdout)
            images = self.of_steps("images_seen", copy)
            self.assertEqual(images[:4], [8, 16, 24, 32])
            self.assertEqual(images[4:], [32 + 2 * workers * step for step in range(1, steps + 1)])

    def test_two_workers_evaluate_the_model_that_they_write(self):
        # Without sync_bn each worker has its own running statistics; the model has rank 0's.
        keys = dict(max_steps=4, val_targets=["val"])
        self.finished(2, self.job(**keys))
        self.finished(1, self.job(**keys, resume=True))
        by_two, by_one = [m["xnorm"] for m in self.metrics() if "val_target" in m]
        self.assertLess(abs(by_two - by_one) / by_one, 1e-4)

    def test_an_output_folder_with_checkpoints_is_not_overwritten_by_accident(self):
        job = self.job(max_steps=1)
        self.finished(2, job)
        again = self.train(2, job)
        self.assert_one_line(again, "already holds step-000000001", "resume")


if __name__ == "__main__":
    unittest.main()
