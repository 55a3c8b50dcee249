"""Reads verification sets and computes their accuracy by the protocol of LFW (View 2): ten folds, and for each the
threshold from the other nine. Distances are squared, between embeddings of length 1."""

import pickle

import numpy as np

import image_records

FOLDS = 10
THRESHOLDS = np.arange(0, 4, 0.01)


def read(path):
    """Returns uint8 [2 * pairs, H, W, 3], the images of a pair side by side, and bool [pairs]."""
    with open(path, "rb") as file:
        images, same = pickle.load(file, encoding="bytes")  # a file of this project
    return image_records.decode_all([bytes(image) for image in images]), np.asarray(same, dtype=bool)


def accuracy(embeddings, same):
    """Returns the mean accuracy over the folds for embeddings [2 * pairs, D] and labels [pairs]."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    distance = np.square(unit[0::2] - unit[1::2]).sum(axis=1)
    right = (distance[:, None] < THRESHOLDS) == same[:, None]  # [pairs, thresholds]
    folds = np.array_split(np.arange(len(same)), FOLDS)
    results = []
    for fold in folds:
        others = np.delete(right, fold, axis=0)
        results.append(right[fold, others.mean(axis=0).argmax()].mean())
    return float(np.mean(results))
