#!/bin/bash
# Runs one training job on the hosts of mpirun, with one agent per host:
#   deploy/mpi/pfc.sh job.json [OPTION OF pfc-coordinator...]
# In a batch job of PBS, LSF or Grid Engine, pfc-coordinator and mpirun read the hosts from the
# environment. Elsewhere set PFC_HOSTFILE=hosts. See also docs/launchers.md.
set -u
job=${1:?usage: pfc.sh JOB.json [OPTION OF pfc-coordinator...]}
shift
port=${PFC_PORT:-7450}
hostfile=${PFC_HOSTFILE:-}

# Join string for the agents: readable only by this user, in a folder shared by all hosts.
join=${PFC_JOIN_FILE:-$PWD/.pfc-join-$$}
rm -f "$join"

coordinator=(pfc-coordinator --hosts-from mpi ${hostfile:+--hosts-file "$hostfile"} --join-file "$join"
  --config "$job" --set resume=true --port "$port" --http-port "$((port + 1))" "$@")
# Absolute, because other hosts may have another PATH.
agent=("$(command -v pfc-agent)" --once --join-file "$join")

"${coordinator[@]}" &
coordinator_pid=$!
# Like mpirun --pernode, in a form that Open MPI 5 also accepts. Each agent has all cores of its
# host and divides them among its workers.
mpirun --map-by ppr:1:node --bind-to none ${hostfile:+--hostfile "$hostfile"} "${agent[@]}" &
agents_pid=$!

# Forward to the coordinator, which ends the agents; mpirun would give them only one second.
trap 'kill -TERM "$coordinator_pid"' TERM INT
code=0
while true; do  # a signal interrupts `wait`, not the coordinator
  wait "$coordinator_pid"
  code=$?
  kill -0 "$coordinator_pid" 2>/dev/null || break
done
wait "$agents_pid"
exit "$code"
