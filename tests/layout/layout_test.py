#!/usr/bin/env python3
"""Checks the structure of the sources by their includes.

- No include loops: the entries of a folder (x.h and x.cc are one entry, and so is a sub-folder) must
  not include each other in a circle.
- Dependencies point down only, as the top CMakeLists.txt says.
- A folder holds at most twelve concepts. A header and its source are one.
"""
import collections
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = re.compile(r"\.(h|cc|cu)$")
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)
MOST_CONCEPTS = 12
# Folders that hold more, and how many. These numbers may only fall; a folder that reaches twelve leaves the list.
FULL = {"common": 18, "kernels/cpu/vector": 14}

# What each top folder may include besides itself.
ALLOWED = {
    "common": set(),
    "security": {"common"},
    "proto": {"security", "common"},
    "kernels": {"common"},
    "comm": {"kernels", "common"},
    "data": {"kernels", "common"},
    "model": {"comm", "data", "kernels", "common"},
    "worker": {"model", "comm", "data", "kernels", "proto", "security", "common"},
    "agent": {"proto", "security", "common"},
    "coordinator": {"proto", "security", "common"},
    "pfcctl": {"worker", "model", "comm", "data", "kernels", "proto", "security", "common"},
}


def read_includes(root):
    """Returns {file: [included files of this project]}, without tests and benchmarks."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"],
                            check=True, capture_output=True, text=True).stdout.split()
    sources = {f for f in listed
               if SOURCE.search(f) and not f.startswith(("tests/", "bench/")) and (root / f).is_file()}
    return {f: [i for i in INCLUDE.findall((root / f).read_text()) if i in sources]
            for f in sources}


def edges_by_folder(includes):
    """Returns {folder: {(entry, other entry): an include that makes the edge}}."""
    edges = collections.defaultdict(dict)
    for file, included in includes.items():
        for other in included:
            a, b = SOURCE.sub("", file).split("/"), SOURCE.sub("", other).split("/")
            shared = 0
            while shared < min(len(a), len(b)) and a[shared] == b[shared]:
                shared += 1
            if shared == len(a) or shared == len(b):
                continue  # a source and its own header
            edge = ("/".join(a[:shared + 1]), "/".join(b[:shared + 1]))
            edges["/".join(a[:shared]) or "."][edge] = f"{file} includes {other}"
    return edges


def find_loop(edges):
    """Returns a loop as a list of entries, whose last one is the first again; None without loops."""
    graph = collections.defaultdict(list)
    for a, b in edges:
        graph[a].append(b)
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for following in graph.get(node, []):
            loop = visit(following)
            if loop:
                return loop
        done.add(path.pop())
        return None

    for node in list(graph):
        loop = visit(node)
        if loop:
            return loop
    return None


def describe_loop(edges, loop):
    return "; ".join(edges[(a, b)] for a, b in zip(loop, loop[1:]))


class Layout(unittest.TestCase):
    def test_no_folder_has_an_include_loop(self):
        for folder, edges in sorted(edges_by_folder(read_includes(ROOT)).items()):
            with self.subTest(folder=folder):
                loop = find_loop(edges)
                self.assertIsNone(loop, loop and describe_loop(edges, loop))

    def test_dependencies_point_down_only(self):
        wrong = []
        for file, included in read_includes(ROOT).items():
            top = file.split("/")[0]
            for other in included:
                if other.split("/")[0] not in ALLOWED[top] | {top}:
                    wrong.append(f"{file} includes {other}")
        self.assertEqual(wrong, [])

    def test_only_one_file_of_the_worker_includes_the_coordinator(self):
        users = [f for f, included in read_includes(ROOT).items()
                 if f.startswith("worker/") and any(i.startswith("proto/") for i in included)]
        self.assertLessEqual(len(users), 1, users)

    def test_no_folder_has_more_than_twelve_concepts(self):
        concepts = {SOURCE.sub("", file) for file in read_includes(ROOT)}
        held = collections.Counter(concept.rpartition("/")[0] for concept in concepts)
        self.assertEqual({folder: n for folder, n in held.items() if n > MOST_CONCEPTS}, FULL)


class FindLoop(unittest.TestCase):
    def test_finds_a_loop_of_three_files(self):
        includes = {"a/x.h": ["a/y.h"], "a/y.cc": ["a/z.h"], "a/y.h": [], "a/z.h": ["a/x.h"]}
        edges = edges_by_folder(includes)["a"]
        self.assertEqual(sorted(set(find_loop(edges))), ["a/x", "a/y", "a/z"])

    def test_finds_a_loop_of_two_folders_whose_files_have_none(self):
        includes = {"a/x.h": ["b/p.h"], "b/q.h": ["a/y.h"], "b/p.h": [], "a/y.h": []}
        self.assertIsNotNone(find_loop(edges_by_folder(includes)["."]))

    def test_a_source_may_include_its_header(self):
        self.assertIsNone(find_loop(edges_by_folder({"a/x.cc": ["a/x.h"], "a/x.h": []})["a"])
                          if edges_by_folder({"a/x.cc": ["a/x.h"], "a/x.h": []}) else None)


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    unittest.main()
