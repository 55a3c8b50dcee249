#!/bin/bash
# One training job on the hosts of mpirun, one agent a host:
#   deploy/mpi/pfc.sh job.json [OPTION OF pfc-coordinator...]
# In a batch job of PBS, LSF or Grid Engine both take the hosts from its environment. Elsewhere name
# a host file: PFC_HOSTFILE=hosts deploy/mpi/pfc.sh job.json. README.md beside this file says more.
set -u
job=${1:?usage: pfc.sh JOB.json [OPTION OF pfc-coordinator...]}
shift
port=${PFC_PORT:-7450}
hostfile=${PFC_HOSTFILE:-}

# What the agents join with, for this user alone, in a folder that all hosts share.
join=${PFC_JOIN_FILE:-$PWD/.pfc-join-$$}
rm -f "$join"

coordinator=(pfc-coordinator --hosts-from mpi ${hostfile:+--hosts-file "$hostfile"} --join-file "$join"
  --config "$job" --set resume=true --port "$port" --http-port "$((port + 1))" "$@")
# The whole path: other hosts may have another PATH.
agent=("$(command -v pfc-agent)" --once --join-file "$join")

"${coordinator[@]}" &
coordinator_pid=$!
# What mpirun --pernode does, in a form that Open MPI 5 takes too. Each agent has all cores of its
# host, and shares them out itself.
mpirun --map-by ppr:1:node --bind-to none ${hostfile:+--hostfile "$hostfile"} "${agent[@]}" &
agents_pid=$!

# The coordinator ends the agents; mpirun would give them one second.
trap 'kill -TERM "$coordinator_pid"' TERM INT
code=0
while true; do  # a signal ends wait, not the coordinator
  wait "$coordinator_pid"
  code=$?
  kill -0 "$coordinator_pid" 2>/dev/null || break
done
wait "$agents_pid"
exit "$code"
