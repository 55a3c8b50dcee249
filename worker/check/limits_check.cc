#include "worker/check/limits_check.h"

#include <spdlog/fmt/fmt.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "common/byte_size.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using enum CheckFinding::Verdict;

// The files that worker/main.cc counts as its own (kOwnFiles), and the files of gRPC and of the
// data set.
constexpr std::uint64_t kOwnFiles = 40;
// The communicators of a worker: step, gradients, inputs, host memory and snapshots.
constexpr std::uint64_t kComms = 5;
constexpr std::uint64_t kFilesOfComm = 6;  // plus one connection to each other worker
// The threads of gRPC, of Gloo and of the worker itself.
constexpr std::uint64_t kOwnThreads = 40;
// NCCL's buffers between two GPUs of a host. Containers often provide only 64 MiB.
constexpr std::uint64_t kSharedMemoryOfWorker = std::uint64_t{64} << 20;

std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (!(file >> number)) return {};
  return number;
}

std::optional<std::uint64_t> soft_limit(decltype(RLIMIT_NOFILE) which) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return limit.rlim_cur;
}

void lower(std::optional<std::uint64_t>& least, std::optional<std::uint64_t> other) {
  if (other && (!least || *other < *least)) least = other;
}

/// Returns the number of this user's threads; 0 if /proc does not provide it.
std::uint64_t threads_of_user(const fs::path& root) {
  std::uint64_t threads = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "status");
    std::string key, rest;
    std::uint64_t user = 0, count = 0;
    while (file >> key) {
      if (key == "Uid:") file >> user;
      if (key == "Threads:") file >> count;
      std::getline(file, rest);
    }
    if (user == getuid()) threads += count;
  }
  return threads;
}

/// Returns how many more processes the control groups of this process and their ancestors allow.
std::optional<std::uint64_t> left_in_groups(const fs::path& root) {
  std::optional<std::uint64_t> least;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",pids,") == std::string::npos) continue;
    const fs::path mount = unified ? "sys/fs/cgroup" : "sys/fs/cgroup/pids";
    for (fs::path group = fs::path(line.substr(second + 1)).relative_path();;
         group = group.parent_path()) {
      const auto most = number_in(root / mount / group / "pids.max");  // "max" means no limit
      const auto now = number_in(root / mount / group / "pids.current");
      if (most && now) lower(least, *most - std::min(*now, *most));
      if (group.empty()) break;
    }
  }
  return least;
}

/// The user limit does not apply to the superuser.
std::optional<std::uint64_t> processes_left(const fs::path& root) {
  std::optional<std::uint64_t> least = left_in_groups(root);
  const auto limit = geteuid() == 0 ? std::nullopt : soft_limit(RLIMIT_NPROC);
  if (limit) lower(least, *limit - std::min(threads_of_user(root), *limit));
  return least;
}

std::string number_text(const std::optional<std::uint64_t>& number) {
  return number ? std::to_string(*number) : "no limit";
}

CheckFinding open_files(const LimitsThere& there, const LimitsNeeded& needed) {
  const std::uint64_t least =
      kOwnFiles + kComms * (static_cast<std::uint64_t>(needed.world_size) + kFilesOfComm);
  CheckFinding finding{.what = "open files",
                       .found = number_text(there.open_files),
                       .expected = fmt::format("at least {}", least)};
  if (there.open_files && *there.open_files < least) {
    finding.verdict = kStops;
    finding.remedy =
        "raise the hard limit of the agent's shell or unit: ulimit -Hn 65536, LimitNOFILE=65536";
  }
  return finding;
}

CheckFinding processes(const LimitsThere& there, const LimitsNeeded& needed) {
  const std::uint64_t least = static_cast<std::uint64_t>(needed.workers_of_host) *
                              (kOwnThreads + static_cast<std::uint64_t>(needed.threads));
  CheckFinding finding{
      .what = "processes and threads",
      .found = there.processes ? number_text(there.processes) + " can still start" : "no limit",
      .expected = fmt::format("at least {}", least)};
  if (there.processes && *there.processes < least) {
    finding.verdict = kStops;
    finding.remedy =
        "raise ulimit -u of the agent's user, TasksMax= of its unit, or pids.max of its container";
  }
  return finding;
}

CheckFinding locked_memory(const LimitsThere& there, const LimitsNeeded& needed) {
  const bool matters = needed.gpu && there.has_infiniband;
  CheckFinding finding{
      .what = "locked memory",
      .found = there.locked_memory ? byte_size_text(*there.locked_memory) : "no limit",
      .expected = matters ? "no limit" : ""};
  if (matters && there.locked_memory) {
    finding.verdict = kStops;
    finding.remedy =
        "NCCL locks the memory that InfiniBand reads: set ulimit -l unlimited for the agent, or "
        "LimitMEMLOCK=infinity in its unit";
  }
  return finding;
}

CheckFinding shared_memory(const LimitsThere& there, const LimitsNeeded& needed) {
  const bool matters = needed.gpu && needed.workers_of_host > 1;
  const std::uint64_t least =
      kSharedMemoryOfWorker * static_cast<std::uint64_t>(needed.workers_of_host);
  CheckFinding finding{.what = "shared memory",
                       .found = there.shared_memory
                                    ? byte_size_text(*there.shared_memory) + " free in /dev/shm"
                                    : "no /dev/shm",
                       .expected = matters ? "at least " + byte_size_text(least) : ""};
  if (matters && there.shared_memory.value_or(0) < least) {
    finding.verdict = kStops;
    finding.remedy =
        "NCCL uses it between the GPUs of a host: run mount -o remount,size=8G /dev/shm, or docker "
        "run --shm-size=8g, or mount an emptyDir of medium Memory in Kubernetes";
  }
  return finding;
}

}  // namespace

LimitsThere limits_there(const fs::path& root) {
  LimitsThere there{.open_files = soft_limit(RLIMIT_NOFILE),
                    .processes = processes_left(root),
                    .locked_memory = soft_limit(RLIMIT_MEMLOCK),
                    .shared_memory = {}};
  struct statvfs shm {};
  if (statvfs((root / "dev/shm").c_str(), &shm) == 0) {
    there.shared_memory = static_cast<std::uint64_t>(shm.f_bavail) * shm.f_frsize;
  }
  std::error_code error;
  const fs::path cards = root / "sys/class/infiniband";
  there.has_infiniband = fs::is_directory(cards, error) && !fs::is_empty(cards, error);
  return there;
}

std::vector<CheckFinding> limit_findings(const LimitsThere& there, const LimitsNeeded& needed) {
  return {open_files(there, needed), processes(there, needed), locked_memory(there, needed),
          shared_memory(there, needed)};
}

}  // namespace pfc
