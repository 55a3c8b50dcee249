// Where the training thread is, for a person who looks for the cause of a worker that is stuck.
#pragma once

namespace pfc {

/// From now on SIGUSR1 makes the thread that gets it write its stack to stderr, and go on. An agent
/// sends it to the training thread, which is the process' first, before it kills a worker that is
/// stuck.
void write_stack_on_signal();

}  // namespace pfc
