#include "common/machine/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "common/counted.h"
#include "common/error.h"
#include "common/machine/limits.h"

namespace pfc {
namespace {

constexpr const char* kVariable = "OMP_NUM_THREADS";
constexpr int kMostThreadsPerCore = 64;  // with 512, no step finished in 100 s

/// Returns 0 if not set or not a number.
int environment_threads() {
  const char* const value = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): only read
  return value == nullptr ? 0 : static_cast<int>(std::strtol(value, nullptr, 10));
}

int affinity_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::thread::hardware_concurrency());
}

/// Returns the group's quota in whole cores; 0 if it has none.
int quota_of(const ControlGroup& group) {
  double quota = 0, period = 0;
  if (group.version == 2) {  // "quota period" in microseconds, or "max period"
    std::ifstream file(group.folder / "cpu.max");
    if (!(file >> quota >> period)) return 0;
  } else {  // -1 means no quota
    std::ifstream quota_file(group.folder / "cpu.cfs_quota_us");
    std::ifstream period_file(group.folder / "cpu.cfs_period_us");
    if (!(quota_file >> quota) || !(period_file >> period)) return 0;
  }
  return quota > 0 && period > 0 ? std::max(1, static_cast<int>(quota / period)) : 0;
}

}  // namespace

int quota_cores(const std::filesystem::path& root) {
  int least = 0;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    const int quota = quota_of(group);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
  }
  return least;
}

int usable_cores() {
  const int cores = std::max(affinity_cores(), 1);
  const int quota = quota_cores();
  return quota > 0 ? std::min(cores, quota) : cores;
}

int threads_asked_for() {
  const char* const value = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): only read
  if (value == nullptr || *value == '\0') return 0;
  char* end = nullptr;
  const long threads = std::strtol(value, &end, 10);  // NOLINT(google-runtime-int): strtol's type
  const int cores = usable_cores();
  // OpenMP also accepts one number per level of nested threads: "4,2".
  if (end == value || std::string_view("\0, ", 3).find(*end) == std::string_view::npos ||
      threads < 1 || threads > long{kMostThreadsPerCore} * cores) {
    throw InputError(std::string(kVariable) + "=" + value + ": expected 1 to " +
                     std::to_string(kMostThreadsPerCore * cores) + " threads on " +
                     counted(cores, "core") +
                     "; unset it to give each worker its share of the cores");
  }
  return static_cast<int>(threads);
}

std::string oversubscription(int threads, int workers, int cores) {
  const long long all = static_cast<long long>(threads) * workers;
  if (threads <= 1 || cores <= 0 || all <= cores) return {};
  return std::string(kVariable) + "=" + std::to_string(threads) + ": " +
         counted(workers, "worker") + " would run " + std::to_string(all) + " threads on " +
         counted(cores, "core") + ", which slows them down; unset it on this host";
}

bool threads_are_chosen() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): only read
  return environment_threads() > 0 && std::getenv(kShareOfCores) == nullptr;
}

int threads_of_worker(int workers_of_host, int own_cores) {
  if (const int asked = environment_threads(); asked > 0) return asked;
  const int workers = std::max(workers_of_host, 1);
  const int quota = quota_cores();
  if (own_cores > 0) return quota > 0 ? std::clamp(quota / workers, 1, own_cores) : own_cores;
  return std::max(usable_cores() / workers, 1);
}

}  // namespace pfc
