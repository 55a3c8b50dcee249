// Makes a program exit after it has reported its result, even if its libraries still wait.
#pragma once

#include <chrono>

namespace pfc {

/// Ends the process with `code` after this time, unless it exits before. This is needed because,
/// for example, gRPC waits forever for one of its threads that could not be started. Uses a signal
/// (SIGALRM), so it needs no thread. REQUIRES: all output has been written.
void end_process_after(std::chrono::seconds time, int code) noexcept;

}  // namespace pfc
