"""Writes the page in docs/benchmarks with the results of a GPU."""

import datetime

import gpus
from cases import PARTS, TABLES


def machine(plan):
    gpu = plan.gpus[0]
    rows = {"GPU": f"{len(plan.gpus)} x {gpu.name}, {gpu.memory_bytes / 2**30:.1f} GiB, "
                   f"compute capability {gpu.capability}",
            **gpus.facts(), "PyTorch": plan.torch, "commit and programs": plan.version,
            "date": datetime.date.today().isoformat()}
    return ["| | |", "|---|---|"] + [f"| {name} | {value} |" for name, value in rows.items()]


def overview(done):
    """Returns a table with one row per part. A case that did not run does not count as passed."""
    lines = ["| part | passed | failed | not run | speed goals MISSED | seconds |",
             "|---|---|---|---|---|---|"]
    for part in PARTS:
        own = [result for result in done if result.part == part]
        counts = [sum(r.kind == kind for r in own) for kind in ("passed", "failed", "not run")]
        if own:
            lines.append(f"| {part} | {' | '.join(map(str, counts))} | "
                         f"{sum(r.goals_missed for r in own)} | {sum(r.seconds for r in own):.0f} |")
    return lines


def merged(tables):
    """Merges tables that have the same two header lines. Keeps all other text."""
    lines, header = [], None
    for table in tables:
        own = table.strip().splitlines()
        if own[:2] == header:
            own = own[2:]
        elif own and own[0].startswith("|"):
            header = own[:2]
            lines.append("")
        else:
            header = None
            lines.append("")
        lines += own
    return lines


def section(part, done):
    own = [result for result in done if result.part == part]
    if not own:
        return []
    lines = ["", f"## {part.capitalize()}", "", PARTS[part]]
    lines += [f"\n**{r.name}** {r.verdict}" for r in own if r.kind != "passed"]
    if part in TABLES:
        lines += merged([r.table for r in own if r.table])
    lines += ["", "| case | verdict | seconds | SM clock | command |", "|---|---|---|---|---|"]
    lines += [f"| {r.name} | {r.summary} | {r.seconds:g} | {r.clocks} | `{r.command}` |" for r in own]
    return lines


def write(path, plan, done):
    lines = [f"# {plan.gpus[0].name}", "",
             "Written by `scripts/gpu_acceptance.sh` ([how](README.md)). Only what is listed "
             "as passed has been shown to work.", ""]
    lines += machine(plan) + [""] + overview(done)
    for part in PARTS:
        lines += section(part, done)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
