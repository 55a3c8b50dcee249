// Prints the stack of the training thread, to help find why a worker is stuck.
#pragma once

namespace pfc {

/// Makes SIGUSR1 print the stack of the thread that receives it to stderr; the thread then
/// continues. An agent sends the signal to the training thread, which is the process' first
/// thread, before it kills a stuck worker. An unreadable stack is printed as far as possible; this
/// never ends the process. One thread prints at a time; a second thread that receives the signal
/// meanwhile prints nothing.
void write_stack_on_signal();

}  // namespace pfc
