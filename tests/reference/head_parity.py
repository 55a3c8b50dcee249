"""Runs head steps in pfc and in head_reference.py from the same files and compares the results.

head_parity.py --bin build/cpu/bin
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import head_reference
import pfc_runs
import safetensors_io

DEFAULTS = {"loss": {"name": "margin"}, "margin_list": [1.0, 0.5, 0.0], "margin_scale": 64.0, "margin_gradient": "exact",
            "interclass_filtering_threshold": 0.0, "sample_rate": 1.0, "seed": 2048,
            "optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
# Largest relative errors of the loss, of the gradient by rows, and of the optimizer's results. For one-byte
# numbers: the largest error in steps between adjacent numbers, and the mean error in standard deviations of the mean.
LIMITS = {"loss": 1e-6, "d_embeddings": 1e-4, "centres": 1e-4, "momentum": 1e-4, "second": 2e-4,
          "centres in steps": 1.01, "momentum in steps": 1.01, "bias of centres": 5, "bias of momentum": 5}


def relative_error(name, got, want):
    if name != "d_embeddings":
        return np.linalg.norm(got - want) / np.linalg.norm(want)
    scale = np.abs(want).max(axis=1, keepdims=True)  # scaled, because squares of 1e+20 are too large for the type
    scale[scale == 0] = 1
    difference = np.linalg.norm((got - want) / scale, axis=1)
    return (difference / np.linalg.norm(want / scale, axis=1)).max()


def random_step(samples, classes, dimension, seed, with_state):
    rng = np.random.default_rng(seed)
    tensors = {"labels": rng.integers(0, classes, samples),
               "embeddings": rng.normal(size=(samples, dimension)).astype(np.float32),
               "centres": rng.normal(scale=0.01, size=(classes, dimension)).astype(np.float32)}
    if with_state:
        shape = (classes, dimension)
        tensors["momentum"] = rng.normal(scale=0.1, size=shape).astype(np.float32)
        tensors["second"] = (rng.normal(scale=0.1, size=shape) ** 2).astype(np.float32)
    return tensors


def special_step(seed):
    """Returns embeddings that are equal, opposite and almost equal to their centres, and embeddings of lengths 1e-20
    and 1e+20."""
    tensors = random_step(12, 700, 96, seed, False)
    x, w = tensors["embeddings"], tensors["centres"]
    tensors["labels"] = np.arange(12) * 50
    for i, factor in enumerate((1, -1, 0.5, -2)):
        w[i * 50] = factor * x[i]
    for i, noise in ((4, 1e-2), (5, 1e-3), (6, -1e-3)):
        w[i * 50] = np.sign(noise) * x[i] + abs(noise) * x[(i + 1) % 12]
    x[7:9] *= 1e-20
    x[9:11] *= 1e20
    return tensors


LOSSES = {
    "adaface": {"name": "adaface", "m": 0.4, "h": 0.333, "t_alpha": 0.01},
    # Margins of both signs up to the limit. With t_alpha 0.9, the batch mainly determines the running values.
    "adaface limited": {"name": "adaface", "m": 1.5, "h": 2.0, "t_alpha": 0.9},
    "magface": {"name": "magface", "l_a": 10, "u_a": 110, "l_margin": 0.45, "u_margin": 0.8,
                "lambda_g": 35},
    "magface steep": {"name": "magface", "l_a": 9, "u_a": 11, "l_margin": 0.1, "u_margin": 1.2,
                      "lambda_g": 400},
    "elastic_arcface": {"name": "elastic_arcface", "m": 0.5, "std": 0.05, "plus": False},
    "elastic_cosface": {"name": "elastic_cosface", "m": 0.35, "std": 0.2, "plus": False},
    "elastic_arcface plus": {"name": "elastic_arcface", "m": 0.5, "std": 0.3, "plus": True},
    "curricularface": {"name": "curricularface", "m": 0.5, "t_alpha": 0.01},
    # With this margin, nearly every class is hard.
    "curricularface wide": {"name": "curricularface", "m": 1.5, "t_alpha": 0.9},
    "uniface": {"name": "uniface", "m": 0.4},
    "softmax": {"name": "softmax"},
    "softmax smoothed": {"name": "softmax"},
    "margin smoothed": {"name": "margin"},
    "magface smoothed": {"name": "magface", "l_a": 10, "u_a": 110, "l_margin": 0.45, "u_margin": 0.8,
                         "lambda_g": 35},
    "curricularface smoothed": {"name": "curricularface", "m": 0.5, "t_alpha": 0.01},
    "margin with 3 sub-centres": {"name": "margin"},
    "adaface with 5 sub-centres": {"name": "adaface", "m": 0.4, "h": 0.333, "t_alpha": 0.01},
    "magface with 3 sub-centres": {"name": "magface", "l_a": 10, "u_a": 110, "l_margin": 0.45, "u_margin": 0.8,
                                   "lambda_g": 35},
    "elastic_arcface plus with 3 sub-centres": {"name": "elastic_arcface", "m": 0.5, "std": 0.3, "plus": True},
    "curricularface with 3 sub-centres": {"name": "curricularface", "m": 0.5, "t_alpha": 0.01},
    "uniface with 3 sub-centres": {"name": "uniface", "m": 0.4}}
# The state of the losses before a step.
STATE = {"length_mean": 15.5, "length_deviation": 6.25, "target_cosine": 0.3, "threshold": 8.5}


def loss_keys(name, loss):
    return {"loss": loss, "label_smoothing": 0.1 if name.endswith("smoothed") else 0.0,
            "sub_centres": int(name.split()[-2]) if name.endswith("sub-centres") else 1}


def with_sub_centres(step, count):
    """Gives every class `count` centres. Number c % `count` of class c is its given centre, the others are random."""
    rng = np.random.default_rng(8)
    for name in sorted({"centres", "momentum", "second"} & step.keys()):
        given = step[name]
        rows = rng.normal(scale=given.std(), size=(len(given), count, given.shape[1])).astype(np.float32)
        rows[np.arange(len(given)), np.arange(len(given)) % count] = given
        step[name] = np.reshape(np.abs(rows) if name == "second" else rows, (len(given), -1))
    return step


def for_loss(step, keys):
    if keys["loss"]["name"] == "softmax":
        return with_biases(step)
    return with_sub_centres(step, keys["sub_centres"]) if keys["sub_centres"] > 1 else step


def with_biases(step):
    """Adds a column of biases to the centres and to the optimizer's state, and shortens the embeddings, so that logits
    are at most 20."""
    rng = np.random.default_rng(7)
    step["embeddings"] = step["embeddings"] * np.float32(0.1)
    for name in {"centres", "momentum", "second"} & step.keys():
        bias = rng.normal(scale=0.1, size=(len(step[name]), 1)).astype(np.float32)
        step[name] = np.hstack([step[name], bias ** 2 if name == "second" else bias])
    return step


def loss_cases():
    for (name, loss), rate in itertools.product(LOSSES.items(), (1.0, 0.3)):
        step = random_step(48, 1003, 96, 6, True)
        # Angles of all sizes, and lengths within and beyond MagFace's limits.
        near = np.linspace(0, 0.999, 48, dtype=np.float32)[:, None]
        centres = step["centres"][step["labels"]]
        unit = centres / np.linalg.norm(centres, axis=1, keepdims=True)
        step["embeddings"] = (step["embeddings"] * (1 - near) + 8 * near * unit)
        step["embeddings"] *= np.linspace(0.5, 20, 48, dtype=np.float32)[:, None]
        keys = {**loss_keys(name, loss), "sample_rate": rate}
        step = for_loss(step, keys)
        few = keys["sub_centres"] > 1 and loss["name"] != "margin"  # with sub-centres, only margin runs all cases
        if few and rate == 1.0:
            continue
        for workers in (3,) if few else (1, 2, 3):
            yield f"{name} rate {rate} workers {workers}", keys, step, workers, run_case
        yield f"{name} rate {rate} micro-batches", keys, step, 2, run_micro_case
        if not few:
            yield f"{name} rate {rate} parts", keys, step, 1, run_parts_case
    for name, loss in LOSSES.items():
        # (t + 2 c) of opposite vectors cancels in float32; lengths of 1e+20 are for normalised products
        if name != "curricularface wide" and loss["name"] != "softmax":
            yield f"{name} special", loss_keys(name, loss), for_loss(
                special_step(2), loss_keys(name, loss)), 1, run_case
        one = for_loss(random_step(8, 1, 32, 4, False), loss_keys(name, loss))
        yield f"{name} one class", loss_keys(name, loss), one, 1, run_case


def several_labels(step, labels_per_image, seed):
    """Gives each sample 1 to labels_per_image different labels, and moves some samples near the centres of their
    labels."""
    rng = np.random.default_rng(seed)
    classes, samples = len(step["centres"]), len(step["labels"])
    labels = np.full((samples, labels_per_image), -1)
    embeddings = step["embeddings"].copy()
    unit = step["centres"] / np.linalg.norm(step["centres"], axis=1, keepdims=True)
    for i, near in enumerate(np.linspace(0, 40, samples, dtype=np.float32)):
        count = rng.integers(1, labels_per_image + 1)
        labels[i, :count] = rng.choice(classes, count, replace=False)
        embeddings[i] += near * unit[labels[i, :count]].sum(axis=0)
    return {**step, "labels": labels, "embeddings": embeddings}


def several_labels_cases():
    step = several_labels(random_step(48, 1003, 96, 8, True), 4, 9)
    few = several_labels(random_step(8, 5, 32, 4, False), 5, 1)
    cosface = {"margin_list": [1, 0, 0.4], "margin_gradient": "straight_through"}
    for name, keys, tensors in (("", {}, step), ("cosface ", cosface, step),
                                ("smoothed ", {"label_smoothing": 0.1}, step),
                                ("softmax ", {"loss": {"name": "softmax"}}, with_biases({**step}))):
        for rate, workers in ((1.0, 1), (1.0, 3), (0.3, 2), (0.0, 3)):
            yield f"several labels {name}rate {rate} workers {workers}", {
                **keys, "sample_rate": rate}, tensors, workers, run_case
    yield "several labels, parts", {"sample_rate": 0.3}, step, 1, run_parts_case
    yield "several labels, micro-batches", {"sample_rate": 0.3}, step, 2, run_micro_case
    yield "several labels, five classes", {}, few, 2, run_case
    nearest = {"sub_centres": 3, "sample_rate": 0.3}
    small = with_sub_centres(several_labels(random_step(24, 301, 32, 9, True), 3, 2), 3)
    yield "several labels, 3 sub-centres", nearest, small, 2, run_case
    yield "several labels, 3 sub-centres, micro-batches", nearest, small, 2, run_micro_case


def steps_between(rows, largest, precision):
    """Returns the distances between adjacent one-byte numbers near `rows`. largest: largest magnitude of each row."""
    scale = np.exp2(np.ceil(np.log2(largest / {"int8": 127, "fp8": 448}[precision])))
    if precision == "int8":
        return np.broadcast_to(scale, rows.shape)
    exponent = np.floor(np.log2(np.maximum(np.abs(rows) / scale, 2.0 ** -6)))
    return scale * np.exp2(exponent - 3)


def one_byte_numbers(table, precision, sub_centres):
    """Returns the table as a head holds it: in one-byte numbers, rounded to the nearest, ties towards zero."""
    rows = table.astype(np.float64).reshape(len(table) * sub_centres, -1)
    step = steps_between(rows, np.abs(rows).max(axis=1, keepdims=True), precision)
    nearest = np.sign(rows) * np.ceil(np.abs(rows) / step - 0.5) * step
    return nearest.astype(np.float32).reshape(table.shape)


def rounding_errors(name, got, want, precision, sub_centres):
    shape = (len(want) * sub_centres, -1)
    got, want = got.astype(np.float64).reshape(shape), want.reshape(shape)
    larger = np.maximum(np.abs(got), np.abs(want))
    most = larger.max(axis=1, keepdims=True)
    step = steps_between(larger, most, precision)
    steps = (got - want) / step
    float32 = 1e-6 * most / step  # error of the row before its rounding; E4M3's smallest step is 4e-6 of the row
    return {f"{name} in steps": (np.abs(steps) - float32).max(),
            f"bias of {name}": np.abs(steps.mean()) * np.sqrt(steps.size / (steps ** 2).mean())}


def one_byte_cases():
    step = random_step(48, 1003, 96, 1, True)
    for precision, momentum in itertools.product(("int8", "fp8"), (0.9, 0.0)):
        keys = {"centre_precision": precision, "centre_momentum": momentum}
        for rate, workers in ((1.0, 1), (0.3, 3)):
            yield (f"{precision} momentum {momentum} rate {rate} workers {workers}", {**keys, "sample_rate": rate},
                   step, workers, run_one_byte_case)
        small = with_sub_centres(random_step(24, 301, 32, 9, True), 3)
        yield (f"{precision} momentum {momentum}, 3 sub-centres", {**keys, "sub_centres": 3, "sample_rate": 0.3},
               small, 2, run_one_byte_case)


def cases():
    margins = {"arcface": [1, 0.5, 0], "cosface": [1, 0, 0.4], "combined": [1, 0.3, 0.2],
               "sphereface": [1.35, 0, 0], "beyond pi": [2, 0.1, 0.1]}
    for (name, margin), gradient in itertools.product(margins.items(),
                                                      ("exact", "straight_through")):
        options = {"margin_list": margin, "margin_gradient": gradient}
        yield f"{name} {gradient}", options, random_step(48, 1003, 96, 1, True), 1, run_case
        yield f"{name} {gradient} special", options, special_step(2), 1, run_case
    step = random_step(64, 5003, 64, 3, True)
    yield "filter", {"interclass_filtering_threshold": 0.1}, step, 1, run_case
    for rate, workers in ((0.3, 1), (0.3, 3), (0.1, 2), (0.0, 5)):
        yield f"rate {rate} workers {workers}", {"sample_rate": rate}, step, workers, run_case
    yield "rate 0.3 held for 5 steps", {"sample_rate": 0.3, "sample_hold": 5}, step, 3, run_case
    adamw = {"optimizer": "adamw", "lr": 1e-3}
    yield "adamw", adamw, step, 1, run_case
    yield "adamw sampled", {**adamw, "sample_rate": 0.2}, step, 2, run_case
    yield "parts of 3 workers", {"sample_rate": 0.3}, step, 1, run_parts_case
    yield "parts of 3 workers on 2, adamw", {**adamw, "sample_rate": 0.1}, step, 2, run_parts_case
    for optimizer, keys in (("sgd", {}), ("adamw", adamw)):
        yield f"4 micro-batches, {optimizer}", {**keys, "sample_rate": 0.1}, step, 2, run_micro_case
    yield "one class", {}, random_step(8, 1, 32, 4, False), 1, run_case
    yield "seven classes", {}, random_step(8, 7, 32, 5, False), 7, run_case


def replay(pfcctl, sources, result, job, workers, step):
    settings = [word for key, value in job.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    subprocess.run([pfcctl, "replay", "head", "--in", *sources, "--out", result, "--workers",
                    str(workers), "--step", str(step), *settings], check=True,
                   stdout=subprocess.DEVNULL)
    return safetensors_io.load(result)


def errors_of(got, want):
    errors = {}
    for name, expected in want.items():
        found = got[name].astype(np.float64)
        if not np.any(expected):
            errors[name] = 0.0 if not np.any(found) else np.inf
        else:
            errors[name] = relative_error(name, found, expected)
    return errors


def run_case(pfcctl, folder, options, tensors, workers, step=3):
    job = {**DEFAULTS, **options}
    source = folder / "in.safetensors"
    safetensors_io.save(source, tensors, {"loss_state": json.dumps(STATE)})
    got = replay(pfcctl, [source], folder / "out.safetensors", job, workers, step)
    return errors_of(got, head_reference.head_step(tensors, job, step, loss_state=STATE))


def run_one_byte_case(pfcctl, folder, options, tensors, workers, step=3):
    """Compares with a step of the reference. The reference starts from rows in one-byte numbers, as the head does."""
    job = {**DEFAULTS, **options}
    source = folder / "in.safetensors"
    safetensors_io.save(source, tensors, {"loss_state": json.dumps(STATE)})
    got = replay(pfcctl, [source], folder / "out.safetensors", job, workers, step)
    precision, sub_centres = job["centre_precision"], job.get("sub_centres", 1)
    held = {**tensors, "centres": one_byte_numbers(tensors["centres"], precision, sub_centres),
            "momentum": one_byte_numbers(tensors["momentum"], "int8", sub_centres)}
    if job["centre_momentum"] == 0:
        del held["momentum"]
    want = head_reference.head_step(held, {**job, "momentum": job["centre_momentum"]}, step, loss_state=STATE)
    tables = {name: want.pop(name) for name in ("centres", "momentum")}
    errors = errors_of(got, want)
    assert ("momentum" in got) == ("momentum" in held)
    for name in tables.keys() & got.keys():
        errors |= rounding_errors(name, got[name], tables[name], precision if name == "centres" else "int8", sub_centres)
    return errors


def run_micro_case(pfcctl, folder, options, tensors, workers, step=3, micro_batches=4):
    """Runs the samples as the micro-batches of one step."""
    job = {**DEFAULTS, **options, "gradient_acc": micro_batches}
    source = folder / "in.safetensors"
    safetensors_io.save(source, tensors, {"micro_batches": str(micro_batches), "loss_state": json.dumps(STATE)})
    got = replay(pfcctl, [source], folder / "out.safetensors", job, workers, step)
    return errors_of(got, head_reference.head_step(tensors, job, step, micro_batches, STATE))


def run_parts_case(pfcctl, folder, options, tensors, workers, step=3, parts=3):
    """Runs only the active rows, in the parts that this number of workers would write."""
    job = {**DEFAULTS, **options}
    want = head_reference.head_step(tensors, job, step, loss_state=STATE)
    table = [name for name in ("centres", "momentum", "second") if name in tensors]
    active = head_reference.active_classes(len(tensors["centres"]), tensors["labels"],
                                           job["sample_rate"], job["seed"], step)
    sources = []
    for rank, classes in enumerate(np.array_split(active, parts)):
        sources.append(folder / f"part-{rank}.safetensors")
        safetensors_io.save(sources[-1], {
            "embeddings": tensors["embeddings"], "labels": tensors["labels"], "classes": classes,
            **{name: tensors[name][classes] for name in table}}, {"loss_state": json.dumps(STATE)})
    del job["sample_rate"]  # the file has the sampled rows
    got = replay(pfcctl, sources, folder / "out.safetensors", job, workers, step)
    assert np.array_equal(got["classes"], active)
    return errors_of(got, {name: value[active] if name in table else value
                           for name, value in want.items()})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    pfcctl = pathlib.Path(parser.parse_args().bin) / "pfcctl"
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, options, tensors, workers, run in itertools.chain(cases(), one_byte_cases(), loss_cases(), several_labels_cases()):
            errors = run(pfcctl, pathlib.Path(folder), options, tensors, workers)
            failed += pfc_runs.report(name, errors, LIMITS)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
