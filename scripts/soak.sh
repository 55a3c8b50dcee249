#!/usr/bin/env bash
# Breaks a real job at random times and checks that it recovers: kills and stops workers, cuts off hosts,
# kills agents and the coordinator. Hosts are network namespaces, so it needs root.
#   scripts/soak.sh [--faults 300] [--interval 6] [--seed 1] [--hosts 3] [--workers 2]
#       [--kinds kill,stop,partition,coordinator,agent,absence] [--hang 120] [--folder FOLDER]
#   scripts/soak.sh --unshared --min-workers 1 --job-steps 150 [...]     runs jobs one after another to their
#       end, on hosts without a shared output folder; counts the images that they train
#   scripts/soak.sh --goodput [--minutes 5]     measures goodput, which is the images per second whose training
#       was not lost: without faults, and with a fault every 60 s or 15 s
# The first form trains a job with --faults faults, then two runs without faults, with different seeds, for as many
# images. Finally it prints a table: faults by kind, time until training resumed (median and worst), lost images,
# memory and open files of the longest-lived processes at start and end, loss curve, goodput. It exits with 1 if the
# job hangs (no new step for --hang seconds), ends, or uses more and more memory or files. It also exits with 1 if
# the job's losses differ from those of a run without faults by more than 1.5 times the difference between two seeds.
# The second form makes no runs without faults. It also exits with 1 if a job trains another number of distinct
# images than planned (the last step may add less than a global batch), or if a generation begins with fewer images
# seen than a checkpoint that was saved before it.
# PFC_BIN: the folder of the programs (default build/cpu/bin). All options: bench/soak/soak.py --help.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"
export PFC_BIN=${PFC_BIN:-$PWD/build/cpu/bin}
exec /usr/bin/python3 -B bench/soak/soak.py "$@"
