#include "agent/worker_environment.h"

#include <cstdlib>

#include "common/machine/cores.h"

namespace pfc {
namespace {

// Longer than the pause between two kernels of a step, and far shorter than the scheduler's time
// slice: docs/benchmarks/cpu.md has the figures.
constexpr const char* kSpinCount = "10000";

bool is_set(const char* name) {
  return std::getenv(name) != nullptr;  // NOLINT(concurrency-mt-unsafe): only read
}

}  // namespace

std::vector<std::pair<std::string, std::string>> worker_environment(int workers) {
  std::vector<std::pair<std::string, std::string>> environment{
      {"OMP_NUM_THREADS", std::to_string(threads_of_worker(workers))}};
  if (!is_set("OMP_WAIT_POLICY") && !is_set("GOMP_SPINCOUNT")) {
    environment.emplace_back("GOMP_SPINCOUNT", kSpinCount);
  }
  return environment;
}

}  // namespace pfc
