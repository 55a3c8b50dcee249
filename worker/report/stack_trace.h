// Where the training thread is, for a person who looks for the cause of a worker that is stuck.
#pragma once

namespace pfc {

/// From now on SIGUSR1 makes the thread that gets it write its stack to stderr, and go on. An agent
/// sends it to the training thread, which is the process' first, before it kills a worker that is
/// stuck. A stack that cannot be read is written as far as it can be, whatever the thread was in;
/// it never ends the process. One thread writes at a time; a second one that gets the signal
/// meanwhile writes nothing.
void write_stack_on_signal();

}  // namespace pfc
