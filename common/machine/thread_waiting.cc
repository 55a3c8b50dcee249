#include "common/machine/thread_waiting.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <vector>

#include "common/error.h"

namespace pfc {

// Limits how long a worker's thread spins for other threads before it sleeps. libgomp's default is
// 300,000 rounds: when other processes use the cores, spinning takes the CPU time that the awaited
// thread needs (docs/benchmarks/cpu.md). libgomp reads this variable when it is loaded, so a
// running program cannot set it for itself.
std::optional<std::pair<std::string, std::string>> waiting_of_worker_threads() {
  for (const char* chosen : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    if (std::getenv(chosen) != nullptr) return {};  // NOLINT(concurrency-mt-unsafe): only read
  }
  return std::pair<std::string, std::string>{"GOMP_SPINCOUNT", "1000"};
}

void begin_again_as_workers_wait() {
  const auto waiting = waiting_of_worker_threads();
  if (!waiting) return;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  setenv(waiting->first.c_str(), waiting->second.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  execv("/proc/self/exe", arguments.data());
  throw DeviceError("cannot restart this program with " + waiting->first + ": " +
                    std::generic_category().message(errno));
}

}  // namespace pfc
