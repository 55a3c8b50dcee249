// Exit codes of all programs. docs/exit-codes.md explains them; a test compares the two.
#pragma once

namespace pfc {

/// The job is complete, or the command has succeeded.
inline constexpr int kExitSuccess = 0;
/// A failure that may not happen again: a crash, a lost GPU, a job that was killed.
inline constexpr int kExitFailed = 1;
/// Wrong input, or a training that has diverged. The same command would fail again.
inline constexpr int kExitBadInput = 2;
/// pfc-coordinator: training did not begin. A host did not register or a worker did not join in
/// time, a program could not be started, or a host lacks a GPU that the job requires.
inline constexpr int kExitNotStarted = 3;
/// pfc-worker: another worker or the network failed. Another process reports the cause.
inline constexpr int kExitPeerFailed = 4;
/// pfc-coordinator: the job stopped after a checkpoint because a host was drained (SIGTERM to its
/// agent, or pfcctl drain). Run it again with "resume": true to continue.
inline constexpr int kExitHostLeft = 5;

/// Returns the code for a clean exit caused by this signal, as shells define it: 130 for SIGINT.
inline constexpr int exit_code_of_signal(int signal) { return 128 + signal; }

}  // namespace pfc
