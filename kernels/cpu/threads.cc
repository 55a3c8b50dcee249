#include "kernels/cpu/threads.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace pfc {
namespace {

int affinity_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return omp_get_num_procs();
  return std::max(1, CPU_COUNT(&set));
}

// A container's limit, "quota period" in microseconds or "max period" (cgroup v2); 0: none.
int quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::max(1, static_cast<int>(std::strtod(quota.c_str(), nullptr) / period));
}

int environment_threads() {
  const char* value = std::getenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe): only read
  return value == nullptr ? 0 : static_cast<int>(std::strtol(value, nullptr, 10));
}

}  // namespace

int usable_cores() {
  if (const int asked = environment_threads(); asked > 0) return asked;
  const int cores = affinity_cores();
  const int quota = quota_cores();
  return quota > 0 ? std::min(cores, quota) : cores;
}

void Threads::apply() const {
  if (omp_get_max_threads() != count_) omp_set_num_threads(count_);
}

}  // namespace pfc
