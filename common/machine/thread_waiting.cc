#include "common/machine/thread_waiting.h"

#include <cstdlib>

namespace pfc {

// How long a thread of a worker spins while it waits for the others before it sleeps. libgomp's
// default is 300,000 rounds: where other processes use the cores it spins away the time in which
// the thread that it waits for could run (docs/benchmarks/cpu.md). libgomp reads this when it is
// loaded, so a program cannot set it for itself.
std::optional<std::pair<std::string, std::string>> waiting_of_worker_threads() {
  for (const char* chosen : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    if (std::getenv(chosen) != nullptr) return {};  // NOLINT(concurrency-mt-unsafe): only read
  }
  return std::pair<std::string, std::string>{"GOMP_SPINCOUNT", "1000"};
}

}  // namespace pfc
