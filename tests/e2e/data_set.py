"""The small data sets that the end-to-end tests share. They are generated once.

data_set.py draw: generates them in $PFC_E2E_DATA. data_set.py check: fails if a test has changed them. Tests must not
write to them: use JobTest.copy_of_data(). A test file that runs alone or needs another size generates its own set.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

SHARED = ((8, 10, 32), (8, 10, 112))  # identities, images per identity, width and height in pixels


def draw(folder, identities, images, size):
    subprocess.run([pathlib.Path(os.environ["PFC_BIN"]) / "pfcctl", "data", "synth", "--identities", str(identities),
                    "--images-per-identity", str(images), "--size", str(size), "--val-identities", "6", "--val-pairs", "20",
                    "--out", folder], check=True, capture_output=True)
    return folder


def shared(*parameters):
    """Returns the folder of the shared set with these parameters, or None."""
    folder = folder_of(parameters) if "PFC_E2E_DATA" in os.environ else None
    return folder if folder and folder.exists() else None


def folder_of(parameters):
    return pathlib.Path(os.environ["PFC_E2E_DATA"]) / "x".join(map(str, parameters))


def digests():
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for parameters in SHARED for path in sorted(folder_of(parameters).rglob("*"))}


def main(verb):
    top = pathlib.Path(os.environ["PFC_E2E_DATA"])
    expected = top / "sha256.json"
    if verb == "draw":
        shutil.rmtree(top, ignore_errors=True)
        top.mkdir()
        for parameters in SHARED:
            draw(folder_of(parameters), *parameters)
        expected.write_text(json.dumps(digests()))
    elif digests() != json.loads(expected.read_text()):
        sys.exit(f"{top}: a test has changed a shared data set; let it change a copy")


if __name__ == "__main__":
    main(sys.argv[1])
