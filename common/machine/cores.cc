#include "common/machine/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace pfc {
namespace {

int affinity_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::thread::hardware_concurrency());
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
  const int cores = std::max(affinity_cores(), 1);
  const int quota = quota_cores();
  return quota > 0 ? std::min(cores, quota) : cores;
}

int threads_of_worker(int workers_of_host, int own_cores) {
  if (const int asked = environment_threads(); asked > 0) return asked;
  const int workers = std::max(workers_of_host, 1);
  const int quota = quota_cores();
  if (own_cores > 0) return quota > 0 ? std::clamp(quota / workers, 1, own_cores) : own_cores;
  return std::max(usable_cores() / workers, 1);
}

}  // namespace pfc
