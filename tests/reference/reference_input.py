"""Makes the images, labels and weights from which pfc-worker and the reference trainer start."""

import json
import pathlib

import numpy as np
import torch

import image_records
import safetensors_io
from backbone_reference import make_backbone, normalised


def smooth_images(generator, classes, per_class, size=112):
    """Returns uint8 [n, size, size, 3]. Each class has its own pattern, with noise, so the loss of a step depends on
    the earlier steps."""
    coarse = generator.random((classes, size // 8, size // 8, 3))
    patterns = coarse.repeat(8, axis=1).repeat(8, axis=2).repeat(per_class, axis=0)
    noise = generator.normal(0, 0.15, patterns.shape)
    return (np.clip(0.2 + 0.6 * patterns + noise, 0, 1) * 255).astype(np.uint8)


def interleaved(per_class, classes):
    """Returns an order in which each batch has many classes."""
    return np.arange(per_class * classes).reshape(classes, per_class).T.ravel()


def initial_weights(network, embedding_size, classes, size=112, bias=False):
    backbone = make_backbone(network, embedding_size, height=size, width=size)
    state = {name: value.numpy() for name, value in backbone.state_dict().items()}
    state["centres"] = (torch.randn(classes, embedding_size + bias) * 0.01).numpy()
    return state


def write_teacher(folder, job, images, classes):
    """Writes the network that `job["teacher"]` names, with the running statistics of some images, and with
    distill_logits also class centres. job["teacher_size"], if set, is the size of its embeddings. If
    job["teacher_files"] is 2, writes the files of arcface_torch with two GPUs. Returns the path of the first file."""
    size, files = job.pop("teacher_size", job["embedding_size"]), job.pop("teacher_files", 1)
    teacher = make_backbone(job["teacher"], size, height=images.shape[1],
                            width=images.shape[2]).train()
    for module in teacher.modules():
        if hasattr(module, "momentum"):
            module.momentum = 1.0
    with torch.no_grad():
        teacher(normalised(torch.from_numpy(images)))
    tensors = {name: value.numpy() for name, value in teacher.state_dict().items()}
    if "distill_logits" in job:
        tensors["centres"] = torch.randn(classes, size).numpy()
    safetensors_io.save(folder / "teacher.safetensors", tensors)
    if files == 1:
        return folder / "teacher.safetensors"
    (folder / "teacher").mkdir()
    for gpu, rows in enumerate(np.array_split(tensors["centres"], files)):
        torch.save({"epoch": 0, "global_step": 0, "state_dict_backbone": teacher.state_dict(),
                    "state_dict_softmax_fc": {"weight": torch.from_numpy(rows)}},
                   folder / f"teacher/checkpoint_gpu_{gpu}.pt")
    return folder / "teacher/checkpoint_gpu_0.pt"


def make(folder, job, classes, per_class, seed=0, size=112):
    """Writes data/, init.safetensors, reference.safetensors and job.json into the folder, and teacher.safetensors if
    "teacher" names a network. Images are square, of a multiple of 16 pixels a side."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    images = smooth_images(np.random.default_rng(seed), classes, per_class, size)
    labels = np.repeat(np.arange(classes, dtype=np.int64), per_class)
    order = interleaved(per_class, classes)
    images, labels = images[order], labels[order]
    weights = initial_weights(job["network"], job["embedding_size"], classes, size,
                              bias=job.get("loss") == {"name": "softmax"})
    image_records.write(folder / "data", images, labels)
    safetensors_io.save(folder / "init.safetensors", weights)
    safetensors_io.save(folder / "reference.safetensors",
                        {"images": images, "labels": labels, **weights})
    job = {"device": "cpu", **job, "shuffle": False, "augment": False,
           "rec": str(folder / "data"), "output": str(folder / "out"), "verbose": 0,
           "init_from": str(folder / "init.safetensors")}
    if "teacher" in job:
        job["teacher"] = str(write_teacher(folder, job, images[:32], classes))
    (folder / "job.json").write_text(json.dumps(job, indent=2))
    return folder / "job.json"


def make_head_job(folder, network, batch, classes):
    """Writes images of a few of many classes, and a job that has all these classes. Returns the path of the job."""
    images = smooth_images(np.random.default_rng(0), 64, 4)
    image_records.write(folder / "data", images, np.repeat(np.arange(64), 4), says_classes=False)
    path = folder / "job.json"
    path.write_text(json.dumps({
        "network": network, "embedding_size": 512, "batch_size": batch, "lr": 0.02, "num_epoch": 1_000_000, "num_workers": 1,
        "sample_rate": 0.1, "device": "cpu", "rec": str(folder / "data"), "verbose": 0, "num_classes": classes}))
    return path
