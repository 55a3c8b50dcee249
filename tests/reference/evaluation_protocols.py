"""Compares the evaluation protocols with NumPy on generated embeddings. All digits of every figure must be equal.

    evaluation_protocols.py --figures build/cpu/tests/evaluation_figures

The NumPy side follows the text of the protocols, threshold by threshold and pair by pair: LFW and TAR at
FAR as arcface_torch's eval/verification.py has them, templates and IJB's 1:1 and 1:N as InsightFace's
scripts, MegaFace's rank of one mate among distractors.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import safetensors_io

FARS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


def unit(rows):
    return rows / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)


def draw(seed):
    rng = np.random.default_rng(seed)
    pairs, dimension = 2000 if seed % 2 == 0 else 600 + 7 * seed, 16
    # Of the 2000 pairs, any nine folds have 900 impostor pairs, and nine of these are exactly a FAR of 1e-2.
    same = np.arange(pairs) % 2 == 0 if seed % 2 == 0 else rng.random(pairs) < 0.5
    a = rng.normal(size=(pairs, dimension))
    b = np.where(same[:, None], a, rng.normal(size=a.shape)) + rng.normal(size=a.shape) * rng.uniform(0.3, 2, (pairs, 1))
    # Many scores are equal, so points of the curve have several pairs.
    score = np.round(rng.normal(size=3000) + rng.integers(0, 2, 3000), 1 + seed % 3)
    subjects = rng.integers(0, 40, 150)  # of templates: probes, then a gallery
    subjects[100:] = rng.permutation(60)[:50]
    direction = rng.normal(size=(60, dimension))
    # Probes 0 to 4 and the gallery have one image per template.
    template = np.concatenate([np.arange(150), rng.integers(5, 100, 500)])
    rng.shuffle(template)
    features = direction[subjects[template]] + rng.normal(size=(650, dimension)) * 1.5
    place = np.array([np.argmax(template == k) for k in range(150)])
    # Some similarities are equal, because some gallery entries are equal to each other or to a probe.
    features[place[140:145]], features[place[145:]] = features[place[100:105]], features[place[:5]]
    return {"a": unit(a).astype(np.float32), "b": unit(b).astype(np.float32), "same": same.astype(np.int64),
            "score": score, "score_same": (rng.random(3000) < 0.4 + 0.2 * (score > 0.5)).astype(np.int64),
            "features": features.astype(np.float32), "template": 3 * template.astype(np.int64),
            "medium": rng.integers(0, 4, 650), "subject": subjects, "probes": np.array([100])}


def folds(n):
    sizes = np.full(10, n // 10)
    sizes[:n % 10] += 1
    return np.split(np.arange(n), np.cumsum(sizes)[:-1])


def accept_threshold(far, rates, thresholds):
    """Interpolates between the last threshold whose FAR is below `far` and the next one. FARs are ascending."""
    if rates.max() < far:
        return 0.0
    above = np.argmax(rates >= far)
    x0, x1 = rates[above - 1], rates[above]
    return thresholds[above] - (x1 - far) / (x1 - x0) * 0.001


def verification(a, b, same):
    same = same.astype(bool)
    distance = np.square(a.astype(np.float64) - b.astype(np.float64)).sum(1)
    coarse, fine = np.arange(0, 4, 0.01), np.arange(0, 4, 0.001)
    accuracies, best, tars = [], [], {far: [] for far in FARS}
    for fold in folds(len(same)):
        train = np.setdiff1d(np.arange(len(same)), fold)
        rates = [np.mean((distance[train] < t) == same[train]) for t in coarse]
        best.append(coarse[np.argmax(rates)])
        accuracies.append(np.mean((distance[fold] < best[-1]) == same[fold]))
        impostors = distance[train][~same[train]]
        false_accepts = np.array([np.mean(impostors < t) for t in fine])
        for far in FARS:
            accepted = distance[fold] < accept_threshold(far, false_accepts, fine)
            tars[far].append((accepted[same[fold]].mean(), accepted[~same[fold]].mean()))
    curve = np.array(roc(-distance, same))
    miss = 1 - curve[:, 1]
    grid = np.linspace(0, 1, 200001)
    crossing = np.argmin(np.abs(np.interp(grid, np.arange(len(curve)) / (len(curve) - 1), curve[:, 0] - miss)))
    return {"accuracy": np.mean(accuracies), "deviation": np.std(accuracies), "threshold": np.mean(best),
            "tars": [[np.mean([t for t, _ in tars[far]]), np.std([t for t, _ in tars[far]]),
                      np.mean([f for _, f in tars[far]])] for far in FARS],
            "eer": np.interp(grid[crossing], np.arange(len(curve)) / (len(curve) - 1), curve[:, 0]),
            "min_dcf": np.min(0.01 * miss + 0.99 * curve[:, 0]) / 0.01}


def roc(score, same):
    """Returns the points that scikit-learn's roc_curve(drop_intermediate=True) returns."""
    levels = np.unique(score)[::-1]
    fp = np.array([np.sum((score >= t) & ~same) for t in levels])
    tp = np.array([np.sum((score >= t) & same) for t in levels])
    bends = (np.diff(fp, 2) != 0) | (np.diff(tp, 2) != 0)
    kept = np.concatenate([[True], bends, [True]])
    return [[0, 0], *np.stack([fp[kept] / fp[-1], tp[kept] / tp[-1]], 1).tolist()]


def tpr_near(points, fpr):
    flipped = np.array(points)[::-1]
    return flipped[np.argmin(np.abs(flipped[:, 0] - fpr)), 1]


def templates(features, ids, media):
    rows = []
    for each in np.unique(ids):
        sums = []
        for medium in np.unique(media[ids == each]):
            sums.append(np.mean(features[(ids == each) & (media == medium)], axis=0, keepdims=True))
        rows.append(np.sum(np.array(sums), axis=0)[0])
    return unit(np.array(rows))


def identification(rows, subject, probes):
    gallery, owners = rows[probes:], subject[probes:]
    similar = np.array([[probe @ entry for entry in gallery] for probe in rows[:probes]])
    hits, mates, others, strangers = [], [], [], []
    for own, who in zip(similar, subject[:probes]):
        if who not in owners:
            strangers.append(own.max())
            continue
        mates.append(own[owners == who].max())
        others.append(own[owners != who].max())
        hits.append(1 + np.sum(own[owners != who] >= mates[-1]))
    hits, mates, others = np.array(hits), np.array(mates), np.array(others)
    strangers = np.sort(strangers)[::-1]
    limits = [strangers[max(int(len(strangers) * f) - 1, 0)] for f in (0.001, 0.01, 0.1)]
    return {"ranks": [np.mean(hits <= k) for k in (1, 5, 10, 20)],
            "recalls": recall(rows, subject, (1, 2, 10)),
            "precisions": precision(rows, subject),
            "tpirs": [np.mean((mates > others) & (mates > limit)) for limit in limits],
            "among_distractors": among_distractors(rows[:probes], subject[:probes], gallery)}


def recall(rows, subject, ks=(1, 10, 100, 1000)):
    """Returns Recall@K of each row among all other rows. Leaves out rows that are the only ones of their subject."""
    similar = np.array([[one @ other for other in rows] for one in rows.astype(np.float64)])
    np.fill_diagonal(similar, -np.inf)
    hits = []
    for i, own in enumerate(similar):
        mates = (subject == subject[i]) & (np.arange(len(subject)) != i)
        if mates.any():
            hits.append(1 + np.sum(own[subject != subject[i]] >= own[mates].max()))
    return [np.mean(np.array(hits) <= k) for k in ks]


def precision(rows, subject, ks=(1, 10, 100, 1000)):
    """Returns P@K: the mean fraction of the K most similar other rows that are of a row's subject. Among equal
    similarities, rows of other subjects come first."""
    found = []
    for i, one in enumerate(rows.astype(np.float64)):
        others = np.arange(len(rows)) != i
        mates = (subject == subject[i])[others]
        if mates.any():
            similar = np.array([one @ other for other in rows])[others]
            found.append(mates[np.lexsort((mates, -similar))])
    return [sum(int(np.sum(own[:k])) for own in found) / (k * len(found)) for k in ks]


def among_distractors(rows, subject, distractors):
    ranks = []
    for i, row in enumerate(rows):
        for j, mate in enumerate(rows):
            if i != j and subject[i] == subject[j]:
                ranks.append(1 + sum(other @ row >= mate @ row for other in distractors))
    return sorted(ranks)


class Protocols(unittest.TestCase):
    def figures(self, arrays):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "arrays.safetensors"
            safetensors_io.save(path, arrays)
            return json.loads(subprocess.run([FIGURES, path], check=True, capture_output=True).stdout)

    def test_every_figure_equals_that_of_numpy(self):
        for seed in range(5):
            x = draw(seed)
            found = self.figures(x)
            with self.subTest("verification", seed=seed):
                expected = verification(x["a"], x["b"], x["same"])
                for key in ("accuracy", "deviation", "threshold", "min_dcf"):
                    self.assertAlmostEqual(found["verification"][key], expected[key], 12, key)
                np.testing.assert_allclose(found["verification"]["tars"], expected["tars"], rtol=0, atol=1e-12)
                self.assertAlmostEqual(found["verification"]["eer"], expected["eer"], 4)
            with self.subTest("IJB 1:1", seed=seed):
                points = roc(x["score"], x["score_same"].astype(bool))
                np.testing.assert_array_equal(found["scores"]["points"], points)
                self.assertEqual(found["scores"]["tpr"], [tpr_near(points, 10.0**k) for k in range(-6, 0)])
            with self.subTest("IJB 1:N, TinyFace and MegaFace", seed=seed):
                rows = templates(x["features"], x["template"], x["medium"])
                one = found["identification"]
                np.testing.assert_allclose(one.pop("templates"), rows.ravel(), rtol=0, atol=1e-15)
                one["among_distractors"].sort()
                self.assertEqual(one, identification(rows, x["subject"], 100))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--figures", required=True)
    options, rest = parser.parse_known_args()
    FIGURES = options.figures
    unittest.main(argv=[__file__, *rest])
