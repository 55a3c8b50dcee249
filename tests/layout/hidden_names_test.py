"""Finds names in anonymous namespaces that hide names of namespace pfc from other sources of a unity build.

The presets compile up to 24 sources of a library as one file, so these share their anonymous namespaces. A function
f there hides pfc::f from all of them. With implicit conversions, such as JSON's to text, a call of pfc::f then compiles
and calls the wrong function. GCC has no warning for it.
"""

import functools
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("common", "security", "proto", "kernels", "comm", "data", "model", "worker", "agent", "coordinator", "pfcctl")

LIBRARY = re.compile(r"^pfc_(?:library|program)\((\S+)( SEPARATELY)?\s+SOURCES(.*?)(?:DEPENDS|\))", re.M | re.S)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
NAMESPACE = re.compile(r"^(namespace) ?([\w:]*) ?\{$|^\}  // namespace.*$", re.M)
# Types, constants and functions. clang-format puts their declarations at the beginning of a line.
DECLARED = re.compile(r"^(?!namespace|using namespace|return|static_assert|//|#|template)"
                      r"(?:(?:struct|class|enum class|using) (\w+)"
                      r"|(?:inline )?constexpr [^(=;]*?\b(k[A-Z]\w*)"
                      r"|[\w\[][\w:<>,&*\[\] ]*?[ &*](\w+)\()", re.M)


def libraries(root):
    """Returns [[source, ...], ...]: the sources of each library and program that is compiled in groups."""
    found = []
    for file in sorted(path for folder in FOLDERS for path in (root / folder).rglob("CMakeLists.txt")):
        for _, separately, sources in LIBRARY.findall(file.read_text()):
            if not separately:
                found.append([file.parent / word for word in sources.split() if word.endswith(".cc")])
    return [[source for source in sources if source.exists()] for sources in found]  # others are generated


@functools.cache
def names_of(path, namespaces):
    """Returns the names that a file declares directly in these nested namespaces; "" is the anonymous one."""
    text, names, open_, begin = path.read_text(), set(), (), 0
    for match in [*NAMESPACE.finditer(text), None]:
        if open_ == namespaces:
            part = text[begin:match.start() if match else len(text)]
            names |= {name for groups in DECLARED.findall(part) for name in groups if name}
        if match:
            open_ = (*open_, match[2]) if match[1] else open_[:-1]
            begin = match.end()
    return names


@functools.cache
def headers_of(path, root):
    """Returns the project's headers that a file includes, directly or not."""
    direct = {root / name for name in INCLUDE.findall(path.read_text())}
    direct = {header for header in direct if header.exists()}
    return direct.union(*(headers_of(header, root) for header in direct))


def hidden_names(root):
    """Returns a line for each name that is hidden from another source of the same library."""
    lines = []
    for sources in libraries(root):
        for source in sources:
            own = names_of(source, ("pfc", ""))
            for header in sorted(set().union(*(headers_of(other, root) for other in sources if other != source))):
                for name in sorted(own & names_of(header, ("pfc",))):
                    lines.append(f"{source.relative_to(root)}: {name} hides that of {header.relative_to(root)} from other "
                                 "sources of its library; give it a more specific name")
    return lines


class HiddenNames(unittest.TestCase):
    def test_hidden_names_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "common").mkdir()
            for name, text in {
                    "CMakeLists.txt": "pfc_library(common\n  SOURCES a.cc b.cc\n  DEPENDS x)\n",
                    "a.cc": "namespace pfc {\nnamespace {\n\nconstexpr int kOwn = 1;\nstd::string shown(const std::string& word) "
                            "{ return word; }\n\n}  // namespace\n}  // namespace pfc\n",
                    "b.cc": '#include "common/b.h"\n',
                    "b.h": "namespace pfc {\n\nstd::string shown(const nlohmann::json& value);\n\n}  // namespace pfc\n",
            }.items():
                (root / "common" / name).write_text(text)
            self.assertEqual(hidden_names(root), ["common/a.cc: shown hides that of common/b.h from other sources of its "
                                                  "library; give it a more specific name"])

    def test_no_library_has_hidden_names(self):
        self.assertGreater(len(libraries(ROOT)), 15)
        lines = hidden_names(ROOT)
        self.assertFalse(lines, "\n" + "\n".join(lines))


if __name__ == "__main__":
    unittest.main()
