// A program that has told its result ends, whatever its libraries still wait for.
#pragma once

#include <chrono>

namespace pfc {

/// The process ends with `code` after this time, unless it has ended before: gRPC, for one, waits
/// for ever for a thread of its own that could not be started. A signal does it (SIGALRM), so it
/// needs no thread. REQUIRES: what the program has to say has been written.
void end_process_after(std::chrono::seconds time, int code) noexcept;

}  // namespace pfc
