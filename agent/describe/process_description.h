// What a process does at this moment, as far as the kernel tells.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace pfc {

/// "state T (stopped); main thread in futex (do_signal_stop)"; of another thread only what may hold
/// the process up, "thread 4712 (pfc-data) in read of /data/train.rec (folio_wait_bit), state D
/// (waits for a disk or a device)". One line. What cannot be read is left out; empty where there is
/// no such process. Reads /proc only, opens nothing that the process has open, and stops nothing.
/// `proc`: of tests.
std::string describe_process(pid_t pid, const std::filesystem::path& proc = "/proc");

/// Whether the process has a handler for this signal, and is not stopped: else it would be ended by
/// it, or would not get it.
bool handles_signal(pid_t pid, int signal, const std::filesystem::path& proc = "/proc");

}  // namespace pfc
