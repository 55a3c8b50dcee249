"""Writes the results of a benchmark: the machine and PyTorch's settings above each table, the tables as sections of
markdown, and all data as JSON."""

import json
import os
import pathlib
import platform
import re
import statistics
import time


def first_line(path, pattern, otherwise="unknown"):
    try:
        found = re.search(pattern, pathlib.Path(path).read_text(), re.MULTILINE)
    except OSError:
        return otherwise
    return found[1] if found else otherwise


def memory_available():
    """Returns the bytes that programs can use without swapping."""
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("MemAvailable:"))
    return int(line.split()[1]) * 1024


def machine(threads):
    """Returns the facts of this machine that affect speed."""
    memory = "/sys/kernel/mm/transparent_hugepage"
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "processor": first_line("/proc/cpuinfo", r"^model name\s*: (.*)$"),
        "cpu_family_model": "/".join(first_line("/proc/cpuinfo", rf"^{key}\s*: (\d+)$")
                                     for key in ("cpu family", "model")),
        "features": [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
                     if re.search(rf"\b{flag}\b", first_line("/proc/cpuinfo", r"^flags\s*: (.*)$"))],
        "cores": os.cpu_count(), "threads": threads,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "transparent_hugepage": first_line(f"{memory}/enabled", r"\[(\w+)\]"),
        "transparent_hugepage_defrag": first_line(f"{memory}/defrag", r"\[([\w+]+)\]"),
        "libc": " ".join(platform.libc_ver()),
    }


def described(facts):
    """Returns a paragraph about the facts of machine()."""
    features = ", ".join(facts["features"]) or "no AVX2"
    return (f"{facts['processor']} (family/model {facts['cpu_family_model']}; {features}), "
            f"{facts['threads']} of {facts['cores']} cores, "
            f"{facts['memory_bytes'] / 2**30:.0f} GiB; Linux {facts['kernel']}, transparent huge pages "
            f"{facts['transparent_hugepage']} (defrag {facts['transparent_hugepage_defrag']}), "
            f"{facts['libc']}; {facts['date']}.")


def blas_described(settings, found):
    version = " ".join(found["config"].split()[:2]) or "unknown BLAS"
    return (f"PyTorch {found['torch']} with {version} ({found['library']}), chosen as "
            f"\"{settings.name}\" (core type {found['core'] or 'unknown'}): "
            f"{found['gflops']:.0f} GFLOP/s in matrix products of these shapes.")


def blas_tried(tried):
    """Returns a sentence with all candidates, the fastest first."""
    ran = sorted((t for t in tried if "gflops" in t), key=lambda t: -t["gflops"])
    words = [f"{t['name']} {t['gflops']:.0f}" for t in ran]
    words += [f"{t['name']} left out ({t['why_not']})" for t in tried if "gflops" not in t]
    return "Tried, in GFLOP/s: " + "; ".join(words) + "."


def spread(values, digits):
    values = sorted(values)
    return (f"{statistics.median(values):.{digits}f} "
            f"({values[0]:.{digits}f} to {values[-1]:.{digits}f})")


def others(parts):
    return (f"Other programs took {statistics.median(parts):.0%} of the cores in the median run, "
            f"{max(parts):.0%} in the worst.")


def replaced(text, sections):
    """Returns `text` with new content between each section's marks, and the names of these sections."""
    found = []
    for name, content in sections.items():
        marks = re.compile(rf"(<!-- bench: {name} -->\n).*?(<!-- end: {name} -->)", re.DOTALL)
        if marks.search(text):
            text = marks.sub(lambda m, content=content: f"{m[1]}{content.strip()}\n{m[2]}", text)
            found.append(name)
    return text, found


def write(options, sections, data):
    """Prints all sections, and writes the data to --json FILE. If a file of --markdown has the marks of a
    section, writes the section between them. Otherwise replaces the file by all sections."""
    print("\n\n".join(content.strip() for content in sections.values()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(data, indent=1) + "\n")
    for path in options.markdown or []:
        text, found = replaced(path.read_text() if path.exists() else "", sections)
        path.write_text(text if found else
                        "\n\n".join(content.strip() for content in sections.values()) + "\n")


def add_arguments(parser):
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results here")
    parser.add_argument("--markdown", type=pathlib.Path, nargs="+", metavar="FILE",
                        help="write the tables here; in a file with marks, between them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--attempts", type=int, default=2, help="attempts for a run that other programs disturb")
