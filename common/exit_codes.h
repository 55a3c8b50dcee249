// The exit codes of all programs. docs/exit-codes.md explains them; a test compares the two.
#pragma once

namespace pfc {

/// The job is complete, or the command has done what was asked.
inline constexpr int kExitSuccess = 0;
/// Something failed that may work the next time: a crash, a lost GPU, a job ended by force.
inline constexpr int kExitFailed = 1;
/// The input is wrong: a flag, the job file, the data, or a training that has diverged. The same
/// command would fail again.
inline constexpr int kExitBadInput = 2;
/// pfc-coordinator: training has not begun. A host has not registered or a worker has not joined in
/// time, an agent's or worker's program could not be started, or a host lacks the GPU that the job
/// must have.
inline constexpr int kExitNotStarted = 3;
/// pfc-worker: another worker or the network failed. The cause is told by another process.
inline constexpr int kExitPeerFailed = 4;
/// pfc-coordinator: the job has stopped after a checkpoint because a host leaves: SIGTERM to its
/// agent, or pfcctl drain. Started again with "resume": true it goes on.
inline constexpr int kExitHostLeft = 5;

/// The program ended in good order because of this signal, as a shell writes it: 130 for SIGINT.
inline constexpr int exit_code_of_signal(int signal) { return 128 + signal; }

}  // namespace pfc
