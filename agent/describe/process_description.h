// Describes what a process is doing now, from /proc.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace pfc {

/// Returns one line: "state T (stopped); main thread in futex (do_signal_stop)". Adds other
/// threads only if they may block the process: "thread 4712 (pfc-data) in read of /data/train.rec
/// (folio_wait_bit), state D (waits for a disk or a device)". Leaves out what cannot be read.
/// Empty if there is no such process. Reads only /proc, opens none of the process's files, and
/// does not stop the process. `proc` is replaced in tests.
std::string describe_process(pid_t pid, const std::filesystem::path& proc = "/proc");

/// Returns whether the process has a handler for this signal and is not stopped. Otherwise the
/// signal would kill it, or not be delivered.
bool handles_signal(pid_t pid, int signal, const std::filesystem::path& proc = "/proc");

}  // namespace pfc
