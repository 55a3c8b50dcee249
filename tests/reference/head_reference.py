"""One step of the sharded margin softmax in PyTorch, float64, written from its description.

One worker has all active classes and logits. Autograd computes the gradients, and torch.optim the update.
"""

import numpy as np
import torch
import torch.nn.functional as F

CLASS_SAMPLING_STREAM = 1


def philox4x32_10(key, counter):
    """Returns Philox 4x32-10 (Salmon et al., SC 2011) of uint64 `key` for counters [4][n] of uint32."""
    low = np.uint64(0xFFFFFFFF)
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        shift = np.uint64(32)
        c = [(p1 >> shift) ^ c[1] ^ np.uint64(k0), p1 & low,
             (p0 >> shift) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c)


def uniform(seed, stream, step, count):
    """Returns u(seed, step, i) in [0, 1) for i = 0 .. count - 1, with 24 bits."""
    blocks = np.arange((count + 3) // 4)
    words = philox4x32_10(seed, [blocks, blocks >> 32, np.full_like(blocks, step),
                                 np.full_like(blocks, stream)])
    return (words.T.reshape(-1)[:count] >> np.uint64(8)) / 2.0 ** 24


def active_classes(classes, labels, rate, seed, step):
    """Returns the sorted classes of the batch and of u(seed, step, class) < rate."""
    chosen = uniform(seed, CLASS_SAMPLING_STREAM, step, classes) < rate
    chosen[labels] = True
    return np.flatnonzero(chosen)


def target_logit(cos, x, w, job):
    """Returns cos(m1 theta + m2) - m3 of each sample's own class; x and w are unit vectors [N, D].

    With the exact gradient it falls at every angle, as psi of SphereFace (arXiv 1704.08063)."""
    m1, m2, m3 = job["margin_list"]
    across = torch.linalg.vector_norm(w - cos[:, None] * x, dim=1)  # sin theta, without cancellation
    # Below this value the direction is only rounding error: the vectors are parallel, and their gradient is 0 by
    # symmetry.
    across = torch.where(across < 1e-13, torch.zeros_like(across), across)
    angle = m1 * torch.atan2(across, cos) + m2
    if job["margin_gradient"] == "straight_through":
        return cos + (torch.cos(angle) - m3 - cos).detach()
    turns = torch.floor(angle.detach() / np.pi)
    return torch.cos(angle - turns * np.pi) - 2 * turns - m3


def loss_of(embeddings, centres, places, job, offsets=0):
    """Returns the mean cross entropy; places [N]: each label's row of the active centres [S, D].
    offsets [S] are added to the logits of the other classes."""
    x, w = F.normalize(embeddings, eps=0), F.normalize(centres, eps=0)
    rows = torch.arange(len(x))
    cos = (x @ w.T).clamp(-1, 1)
    is_target = torch.zeros_like(cos, dtype=torch.bool)
    is_target[rows, places] = True
    threshold = job["interclass_filtering_threshold"]
    logits = cos
    if threshold > 0:
        logits = torch.where((cos.detach() > threshold) & ~is_target, torch.zeros_like(cos), cos)
    target = target_logit((x * w[places]).sum(1), x, w[places], job)
    if len(w) == 1:
        return 0 * cos.sum()
    # log sum exp - target as softplus(log sum exp of the others - target): cross_entropy's gradient,
    # p(target) - 1, has no digits left where the target has almost all probability.
    others = torch.logsumexp((job["margin_scale"] * logits + offsets).masked_fill(is_target, -torch.inf), dim=1)
    return F.softplus(others - job["margin_scale"] * target, threshold=100).mean()


def update(centres, gradient, state, job, step):
    """Runs a step of torch.optim on all rows; returns (centres, momentum, second)."""
    momentum, second = state
    parameter = torch.nn.Parameter(centres)
    parameter.grad = gradient
    if job["optimizer"] == "sgd":
        optimizer = torch.optim.SGD([parameter], job["lr"], momentum=job["momentum"],
                                    weight_decay=job["weight_decay"])
        optimizer.state[parameter]["momentum_buffer"] = momentum
    else:
        optimizer = torch.optim.AdamW([parameter], job["lr"], betas=(0.9, 0.999), eps=1e-8,
                                      weight_decay=job["weight_decay"])
        optimizer.state[parameter].update(step=torch.tensor(float(step - 1)), exp_avg=momentum,
                                          exp_avg_sq=second)
    optimizer.step()
    return parameter.detach(), momentum, second


def head_step(tensors, job, step, micro_batches=1):
    """Runs a step. Takes and returns the tensors of worker/head/replay.h as float64 numpy arrays."""
    labels = tensors["labels"]
    table = {"centres": tensors["centres"].astype(np.float64)}
    for name in ("momentum", "second"):
        table[name] = tensors.get(name, np.zeros_like(table["centres"])).astype(np.float64)
    gradient = torch.zeros(table["centres"].shape, dtype=torch.float64)
    losses, d_embeddings = [], []
    for x, label in zip(np.split(tensors["embeddings"].astype(np.float64), micro_batches),
                        np.split(labels, micro_batches)):
        active = active_classes(len(table["centres"]), label, job["sample_rate"], job["seed"], step)
        places = torch.from_numpy(np.searchsorted(active, label))
        embeddings = torch.from_numpy(x).requires_grad_()
        centres = torch.from_numpy(table["centres"][active]).requires_grad_()
        loss = loss_of(embeddings, centres, places, job)
        (loss / micro_batches).backward()
        gradient[active] += centres.grad  # dense: momentum and decay move every row
        losses.append(loss.item())
        d_embeddings.append(embeddings.grad.numpy())
    state = (torch.from_numpy(table["momentum"]), torch.from_numpy(table["second"]))
    moved = update(torch.from_numpy(table["centres"]).clone(), gradient, state, job, step)
    table = {name: value.numpy() for name, value in zip(("centres", "momentum", "second"), moved)}
    result = {"loss": np.array(losses), "d_embeddings": np.concatenate(d_embeddings), **table}
    if job["optimizer"] == "sgd":
        del result["second"]
    return result
