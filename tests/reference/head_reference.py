"""One step of the sharded margin softmax in PyTorch, float64, written from its description.

One worker has all active classes and logits. Autograd computes the gradients, and torch.optim the update.
"""

import numpy as np
import torch
import torch.nn.functional as F

CLASS_SAMPLING_STREAM, SAMPLE_PHASE_STREAM = 1, 12
ELASTIC_MARGIN_STREAM = 10


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


def block_words(seed, stream, step, count):
    """Returns the words [4, n] of the blocks of four for count elements."""
    blocks = np.arange((count + 3) // 4)
    return philox4x32_10(seed, [blocks, blocks >> 32, np.full_like(blocks, step),
                                np.full_like(blocks, stream)])


def uniform(seed, stream, step, count):
    """Returns u(seed, step, i) in [0, 1) for i = 0 .. count - 1, with 24 bits. step: a number, or one for each block."""
    return (block_words(seed, stream, step, count).T.reshape(-1)[:count] >> np.uint64(8)) / 2.0 ** 24


def active_classes(classes, labels, rate, seed, step, hold=1):
    """Returns the sorted classes of the batch and of u(seed, (step + phase(class)) // hold, class) < rate."""
    first = block_words(seed, SAMPLE_PHASE_STREAM, 0, classes)[0]
    phases = (first * np.uint64(hold) >> np.uint64(32)).astype(np.int64)
    chosen = uniform(seed, CLASS_SAMPLING_STREAM, (step + phases) // hold, classes) < rate
    chosen[labels[labels >= 0]] = True
    return np.flatnonzero(chosen)


def curricular_logits(cos, target_cos, loss, state):
    """Returns the logits / s of all classes, and of the targets, in the order of operations of CurricularFace's metrics.py."""
    sine = torch.sqrt(1 - target_cos.clamp(-1 + 1e-14, 1 - 1e-14) ** 2)
    with_margin = target_cos * np.cos(loss["m"]) - sine * np.sin(loss["m"])
    hard = cos.detach() > with_margin.detach()[:, None]
    guarded = torch.where(target_cos > np.cos(np.pi - loss["m"]), with_margin,
                          target_cos - np.sin(np.pi - loss["m"]) * loss["m"])
    mean = target_cos.detach().mean().item()
    state["target_cosine"] = mean * loss["t_alpha"] + (1 - loss["t_alpha"]) * state["target_cosine"]
    return torch.where(hard, cos * (state["target_cosine"] + cos), cos), guarded


def drawn_margins(loss, job, step, first, cos):
    """Returns ElasticFace's margins, drawn from N(m, std^2): a function of (seed, step, sample)."""
    count = len(cos)
    samples = np.arange(first, first + count)
    words = philox4x32_10(job["seed"], [samples, samples >> 32, np.full_like(samples, step),
                                        np.full_like(samples, ELASTIC_MARGIN_STREAM)])
    radius = np.sqrt(-2 * np.log((words[0] + 0.5) / 2.0 ** 32))
    margins = torch.from_numpy(loss["m"] + loss["std"] * radius * np.cos(2 * np.pi * words[1] / 2.0 ** 32))
    if loss["plus"]:  # the nearer a sample is to its centre, the smaller its margin
        rank = torch.argsort(torch.argsort(cos.detach(), descending=True))
        margins = torch.sort(margins)[0][rank]
    return margins


def adaface_target(cos, lengths, loss, state):
    """Returns the target of each sample in the order of operations of AdaFace's head.py."""
    cos = cos.clamp(-1 + 1e-3, 1 - 1e-3)
    safe = lengths.detach().clip(0.001, 100)
    state["length_mean"] = loss["t_alpha"] * safe.mean().item() + (1 - loss["t_alpha"]) * state["length_mean"]
    state["length_deviation"] = (loss["t_alpha"] * safe.std().item()
                                 + (1 - loss["t_alpha"]) * state["length_deviation"])
    scaler = (safe - state["length_mean"]) / (state["length_deviation"] + 1e-3)
    scaler = (scaler * loss["h"]).clip(-1, 1)
    theta = (cos.acos() - loss["m"] * scaler).clip(1e-3, np.pi - 1e-3)
    return theta.cos() - (loss["m"] + loss["m"] * scaler)


def magface_target(cos, x, w, lengths, loss):
    """Returns the target of each sample, as MagFace's code with its easy margin."""
    lengths = lengths.clamp(loss["l_a"], loss["u_a"])
    slope = (loss["u_margin"] - loss["l_margin"]) / (loss["u_a"] - loss["l_a"])
    margin = slope * (lengths - loss["l_a"]) + loss["l_margin"]
    return torch.where(cos > 0, torch.cos(torch.atan2(sine_of(cos, x, w), cos) + margin), cos)


def length_regulariser(lengths, loss):
    """Returns lambda g, as MagFace's calc_loss_G()."""
    lengths = lengths.clamp(loss["l_a"], loss["u_a"])
    return loss["lambda_g"] * (lengths / loss["u_a"] ** 2 + 1 / lengths).mean()


def sine_of(cos, x, w):
    """Returns sin theta without loss of digits. x and w are unit vectors [N, D]."""
    across = torch.linalg.vector_norm(w - cos[:, None] * x, dim=1)
    # A smaller length is rounding error and gives no direction: the vectors are parallel, and by symmetry the gradient
    # is 0.
    return torch.where(across < 1e-13, torch.zeros_like(across), across)


def target_logit(cos, x, w, margin, gradient):
    """Returns cos(m1 theta + m2) - m3 of each sample's own class; x and w are unit vectors [N, D].

    With the exact gradient it falls at every angle, as psi of SphereFace (arXiv 1704.08063)."""
    m1, m2, m3 = margin
    angle = m1 * torch.atan2(sine_of(cos, x, w), cos) + m2
    if gradient == "straight_through":
        return cos + (torch.cos(angle) - m3 - cos).detach()
    turns = torch.floor(angle.detach() / np.pi)
    return torch.cos(angle - turns * np.pi) - 2 * turns - m3


def name_of_loss(job):
    return job.get("loss", {"name": "margin"})["name"]


def target_of(cos, x, w, lengths, job, state, step, first):
    """Returns the target of each sample's own class under the job's loss."""
    loss, name = job.get("loss"), name_of_loss(job)
    if name == "adaface":
        return adaface_target(cos, lengths, loss, state)
    if name == "magface":
        return magface_target(cos, x, w, lengths, loss)
    if name.startswith("elastic"):
        drawn = drawn_margins(loss, job, step, first, cos)
        margin = (1, drawn, 0) if name == "elastic_arcface" else (1, 0, drawn)
    else:
        margin = job["margin_list"]
    return target_logit(cos, x, w, margin, job["margin_gradient"])


def several_targets_loss(embeddings, centres, labels, job, offsets):
    """Returns the loss for places of targets [N, K], padded with -1.

    The wanted probability of each of n targets is 1 / n."""
    is_target = torch.zeros(len(embeddings), len(centres), dtype=torch.bool)
    rows, columns = torch.nonzero(labels >= 0, as_tuple=True)
    places = labels[rows, columns]
    is_target[rows, places] = True
    if name_of_loss(job) == "softmax":
        logits = F.linear(embeddings, centres[:, :-1], centres[:, -1])
    else:
        x = F.normalize(embeddings, eps=0)
        w = F.normalize(centres.reshape(len(centres), job.get("sub_centres", 1), -1), dim=2, eps=0)
        cos, nearest = torch.einsum("nd,skd->nsk", x, w).max(2)
        targets = target_logit(cos[rows, places], x[rows], w[places, nearest[rows, places]], job["margin_list"],
                               job["margin_gradient"])
        logits = job["margin_scale"] * cos.index_put((rows, places), targets)
    logits = torch.where(is_target, logits, logits + offsets)
    smoothing = job.get("label_smoothing", 0.0)
    count = is_target.sum(1)
    if smoothing > 0:
        wanted = (1 - smoothing) * is_target / count[:, None] + smoothing / len(centres)
        return -(wanted * torch.log_softmax(logits, 1)).sum(1).mean()
    # If a single target has almost all probability, log_softmax has no digits left. So the log sum exp of all logits is
    # computed from two parts: that of the targets, and softplus(that of the others - that of the targets).
    # One logit of -1e30 is added to the others, because all classes may be targets.
    none = torch.full((len(logits), 1), -1e30, dtype=torch.float64)
    others = torch.logsumexp(torch.cat([logits.masked_fill(is_target, -torch.inf), none], 1), dim=1)
    own = torch.logsumexp(logits.masked_fill(~is_target, -torch.inf), dim=1)
    mean = (is_target * logits).sum(1) / count
    return (F.softplus(others - own, threshold=100) + torch.where(count > 1, own - mean, 0.0)).mean()


def uniface_loss(logits, target_cos, is_target, job, threshold, offsets):
    """Returns the mean binary cross-entropy of the samples (UniFace, ICCV 2023, with l = r = 1)."""
    scale = job["margin_scale"]
    of_targets = F.softplus(threshold - scale * (target_cos - job["loss"]["m"]), threshold=100)
    of_others = F.softplus(scale * logits + offsets - threshold, threshold=100).masked_fill(is_target, 0)
    return (of_targets + of_others.sum(1)).mean()


def softmax_loss(embeddings, centres, places, job, offsets):
    """Returns the cross entropy of torch.nn.Linear, whose bias is the last column of the centres."""
    logits = F.linear(embeddings, centres[:, :-1], centres[:, -1])
    is_target = F.one_hot(places, len(centres)).bool()
    return F.cross_entropy(torch.where(is_target, logits, logits + offsets), places,
                           label_smoothing=job.get("label_smoothing", 0.0))


def loss_of(embeddings, centres, places, job, state=None, step=0, first=0, offsets=0):
    """Returns the mean loss; places [N]: each label's row of the active centres [S, D].
    offsets [S] are added to the logits of the other classes. With sub_centres K the centres are [S, K D], and the
    cosine of a class is the largest of its K cosines (Deng et al., ECCV 2020, equation 4)."""
    if places.ndim == 2:
        return several_targets_loss(embeddings, centres, places, job, offsets)
    if name_of_loss(job) == "softmax":
        return softmax_loss(embeddings, centres, places, job, offsets)
    x = F.normalize(embeddings, eps=0)
    w = F.normalize(centres.reshape(len(centres), job.get("sub_centres", 1), -1), dim=2, eps=0)
    rows = torch.arange(len(x))
    cos, nearest = torch.einsum("nd,skd->nsk", x, w).max(2)
    cos = cos.clamp(-1, 1)
    is_target = torch.zeros_like(cos, dtype=torch.bool)
    is_target[rows, places] = True
    threshold = job["interclass_filtering_threshold"]
    logits = cos
    if threshold > 0:
        logits = torch.where((cos.detach() > threshold) & ~is_target, torch.zeros_like(cos), cos)
    lengths = torch.linalg.vector_norm(embeddings, dim=1)
    own = w[places, nearest[rows, places]]
    target_cos = (x * own).sum(1)
    if name_of_loss(job) == "uniface":
        return uniface_loss(logits, target_cos, is_target, job, state["threshold"], offsets)
    if name_of_loss(job) == "curricularface":
        logits, target = curricular_logits(logits, target_cos, job["loss"], state)
    else:
        target = target_of(target_cos, x, own, lengths, job, state, step, first)
    added = length_regulariser(lengths, job["loss"]) if name_of_loss(job) == "magface" else 0
    if len(w) == 1:
        return 0 * cos.sum() + added
    if job.get("label_smoothing", 0) > 0:
        all_logits = job["margin_scale"] * torch.where(is_target, target[:, None], logits) + offsets * ~is_target
        return F.cross_entropy(all_logits, places, label_smoothing=job["label_smoothing"]) + added
    # log sum exp - target is computed as softplus(log sum exp of the others - target). The gradient of cross_entropy is
    # p(target) - 1, which has no digits left if the target has almost all probability.
    others = torch.logsumexp((job["margin_scale"] * logits + offsets).masked_fill(is_target, -torch.inf), dim=1)
    return F.softplus(others - job["margin_scale"] * target, threshold=100).mean() + added


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


def head_step(tensors, job, step, micro_batches=1, loss_state=None):
    """Runs a step. Takes and returns the tensors of worker/head/replay.h as float64 numpy arrays."""
    loss_state = dict(loss_state or {"length_mean": 20.0, "length_deviation": 100.0, "target_cosine": 0.0})
    labels = tensors["labels"]
    table = {"centres": tensors["centres"].astype(np.float64)}
    for name in ("momentum", "second"):
        table[name] = tensors.get(name, np.zeros_like(table["centres"])).astype(np.float64)
    gradient = torch.zeros(table["centres"].shape, dtype=torch.float64)
    losses, d_embeddings = [], []
    for x, label in zip(np.split(tensors["embeddings"].astype(np.float64), micro_batches),
                        np.split(labels, micro_batches)):
        active = active_classes(len(table["centres"]), label, job["sample_rate"], job["seed"], step,
                                job.get("sample_hold", 1))
        places = torch.from_numpy(np.where(label >= 0, np.searchsorted(active, label), -1))
        embeddings = torch.from_numpy(x).requires_grad_()
        centres = torch.from_numpy(table["centres"][active]).requires_grad_()
        first = len(losses) * len(label)
        loss = loss_of(embeddings, centres, places, job, loss_state, step, first)
        (loss / micro_batches).backward()
        gradient[active] += centres.grad  # a dense gradient: momentum and decay move every row
        losses.append(loss.item())
        d_embeddings.append(embeddings.grad.numpy())
    state = (torch.from_numpy(table["momentum"]), torch.from_numpy(table["second"]))
    moved = update(torch.from_numpy(table["centres"]).clone(), gradient, state, job, step)
    table = {name: value.numpy() for name, value in zip(("centres", "momentum", "second"), moved)}
    result = {"loss": np.array(losses), "d_embeddings": np.concatenate(d_embeddings), **table}
    if job["optimizer"] == "sgd":
        del result["second"]
    return result
