#!/usr/bin/env bash
# Breaks a real job at random moments, and checks that it takes it: workers are killed and stopped, hosts
# cut off, agents and the coordinator killed. Hosts are network namespaces, so it needs root.
#   scripts/soak.sh [--faults 300] [--interval 6] [--seed 1] [--hosts 3] [--workers 2]
#       [--kinds kill,stop,partition,coordinator,agent,absence] [--hang 120] [--folder FOLDER]
#   scripts/soak.sh --unshared --min-workers 1 --job-steps 150 [...]     jobs one after another, each to its end, on
#       hosts that share no output folder; counts the images that they train
#   scripts/soak.sh --goodput [--minutes 5]     images that count a second with a fault every 60 s and every
#       15 s, against none
# The first trains a job under so many faults, and then two runs without any, of two seeds, for as many images.
# At its end a table: faults by kind, how long it took until training went on (median and worst), images lost,
# memory and open files of the processes that lived longest at begin and end, the loss curve, goodput. Exit
# code 1 when the job hangs (no new step for --hang seconds), ends, grows, or when its losses differ from an
# unbroken run's by more than 1.5 times what another seed does.
# The second has no unbroken runs. Its exit code is also 1 if the number of distinct trained images of a job
# is not the planned number (the last step may add less than a global batch), or if a generation begins below
# a saved checkpoint.
# PFC_BIN: the folder of the programs (build/cpu/bin). All options: tests/soak/soak.py --help.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"
export PFC_BIN=${PFC_BIN:-$PWD/build/cpu/bin}
exec /usr/bin/python3 -B tests/soak/soak.py "$@"
