"""The small data set that the end-to-end tests share, drawn once for all of them.

data_set.py draw: draws the set of support.JobTest into $PFC_E2E_DATA. data_set.py check: fails if a test has changed
it since then. No test may write to it: take JobTest.copy_of_data() and change that. A test file that runs by itself,
or wants another size, draws a set of its own.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys


def draw(folder, identities, images, size):
    subprocess.run([pathlib.Path(os.environ["PFC_BIN"]) / "pfcctl", "data", "synth", "--identities", str(identities),
                    "--images-per-identity", str(images), "--size", str(size), "--val-identities", "6", "--val-pairs", "20",
                    "--out", folder], check=True, capture_output=True)
    return folder


def shared(*parameters):
    """The folder of the shared set with these parameters, or None."""
    folder = pathlib.Path(os.environ.get("PFC_E2E_DATA", "")) / "x".join(map(str, parameters))
    return folder if (folder / "train.rec").exists() else None


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*"))}


def main(verb):
    from support import JobTest
    parameters = (JobTest.IDENTITIES, JobTest.IMAGES, JobTest.SIZE)
    top = pathlib.Path(os.environ["PFC_E2E_DATA"])
    folder, expected = top / "x".join(map(str, parameters)), top / "sha256.json"
    if verb == "draw":
        shutil.rmtree(top, ignore_errors=True)
        top.mkdir()
        expected.write_text(json.dumps(digests(draw(folder, *parameters))))
    elif digests(folder) != json.loads(expected.read_text()):
        sys.exit(f"{folder}: a test has changed the shared data set; copy it where a test changes it")


if __name__ == "__main__":
    main(sys.argv[1])
