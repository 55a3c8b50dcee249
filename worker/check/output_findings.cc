#include "worker/check/output_findings.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <string>
#include <system_error>
#include <utility>

#include "common/byte_size.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/files/fd.h"
#include "common/files/file_error.h"
#include "worker/head/head.h"
#include "worker/start/output_check.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using enum CheckFinding::Verdict;

constexpr std::size_t kWriteBlockBytes = 1 << 20;  // bytes per write
constexpr std::size_t kMostWritten = 64 << 20;     // in bytes
constexpr double kWriteSeconds = 1.0;              // stops writing after this time
constexpr double kSlowDisk = 20e6;                 // bytes/s: a checkpoint of 1 GB takes a minute
constexpr const char* kTemporary = ".pfc-check-XXXXXX";

struct Written {
  double bytes_per_second = 0;
  int error = 0;  ///< an errno; 0 on success
};

/// Writes to a file that is unlinked before the first write, so that nothing is left behind.
Written write_there(const fs::path& folder, std::uint64_t room) {
  std::string name = (folder / kTemporary).string();
  const Fd file(mkostemp(name.data(), O_CLOEXEC));
  if (file < 0) return {.error = errno};
  unlink(name.c_str());
  const std::vector<char> block(kWriteBlockBytes, 'x');
  const std::size_t most = std::min<std::uint64_t>(kMostWritten, room);
  std::size_t done = 0;
  const TimePoint start = Clock::now();
  while (done < most && seconds_since(start) < kWriteSeconds) {
    const ssize_t wrote = ::write(file, block.data(), std::min(kWriteBlockBytes, most - done));
    if (wrote <= 0) break;
    done += static_cast<std::size_t>(wrote);
  }
  const int error = done == 0 || fsync(file) != 0 ? errno : 0;
  const double seconds = std::max(seconds_since(start), 1e-6);
  return {.bytes_per_second = static_cast<double>(done) / seconds, .error = error};
}

std::uint64_t free_bytes(const fs::path& folder) {
  struct statvfs room {};
  if (statvfs(folder.c_str(), &room) != 0) return 0;
  return static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
}

CheckFinding unwritable(const fs::path& output, const std::string& why) {
  return {.what = "output",
          .found = why,
          .expected = "a folder that this host's agent can write",
          .verdict = kStops,
          .remedy = "give the agent's user the right to write " + output.string() +
                    ", mount it for writing, or choose another output"};
}

CheckFinding room(std::uint64_t there, std::uint64_t needed) {
  CheckFinding finding{.what = "free space of output",
                       .found = byte_size_text(there),
                       .expected = "at least " + byte_size_text(needed) + " for its checkpoints"};
  if (there < needed) {
    finding.verdict = kStops;
    finding.remedy = "free space, choose an output on a larger disk, or lower keep_checkpoints";
  }
  return finding;
}

CheckFinding speed(double bytes_per_second) {
  CheckFinding finding{.what = "write speed of output",
                       .found = fmt::format("{:.0f} MB/s", bytes_per_second / 1e6),
                       .expected = fmt::format("at least {:.0f} MB/s", kSlowDisk / 1e6),
                       .value = bytes_per_second / 1e6,
                       .unit = "MB/s"};
  if (bytes_per_second < kSlowDisk) {
    finding.verdict = kSlows;
    finding.remedy = "check this host's disk or mount, or choose an output on a faster disk";
  }
  return finding;
}

/// Estimates the size of a worker's log of changed pages between two checkpoints. It is at most
/// that of the tables, and this is assumed if checkpoints are taken by time.
std::uint64_t undo_log_bytes(const PlannedJob& planned) {
  const JobConfig& job = planned.job;
  const HeadOptions head = head_options(job);
  const std::int64_t rows = head.positions().shard(0, planned.world_size).size();
  const auto steps = static_cast<double>(job.save_every_steps);
  const double draws = 1 + std::ceil(steps / static_cast<double>(job.sample_hold));
  const double labels = steps * static_cast<double>(job.gradient_acc * job.batch_size) *
                        planned.world_size / static_cast<double>(head.classes);
  std::uint64_t bytes = 0;
  for (const FileTable& table : file_tables(rows, head)) {
    const auto row =
        static_cast<double>(size_of(table.dtype)) * static_cast<double>(table.shape[1]);
    const double rows_of_page = std::max(1.0, static_cast<double>(kPageBytes) / row);
    const double blocks = std::max(1.0, rows_of_page / static_cast<double>(job.sample_unit));
    const double unchanged =
        std::pow(1 - job.sample_rate.largest(), draws * blocks) * std::exp(-labels * rows_of_page);
    const double changed = job.save_every_seconds > 0 ? 1 : 1 - unchanged;
    bytes += static_cast<std::uint64_t>(changed * row * static_cast<double>(rows));
  }
  return bytes;
}

}  // namespace

FolderForAWhile::FolderForAWhile(fs::path path) {
  as_storage_error([&] {
    fs::path missing = fs::absolute(path).lexically_normal();
    if (missing.filename().empty()) missing = missing.parent_path();
    for (; !fs::exists(missing); missing = missing.parent_path()) made_.push_back(missing);
    fs::create_directories(path);
  });
}

FolderForAWhile::~FolderForAWhile() {
  std::error_code ignored;  // a folder may no longer be empty
  for (const fs::path& each : made_) fs::remove(each, ignored);
}

std::uint64_t checkpoint_bytes(const PlannedJob& planned, const MemoryPlan& plan) {
  constexpr std::array kOfAllWorkers{"class centres", "centres' momentum",
                                     "centres' second moment"};
  constexpr std::array kOfRankZero{"backbone weights", "backbone optimizer"};
  std::uint64_t one = 0;
  for (const MemoryPart& part : plan.parts) {
    if (std::ranges::find(kOfAllWorkers, part.name) != kOfAllWorkers.end()) {
      one += part.bytes * static_cast<std::uint64_t>(planned.world_size);
    }
    if (std::ranges::find(kOfRankZero, part.name) != kOfRankZero.end()) one += part.bytes;
  }
  return one;
}

std::uint64_t checkpoints_bytes(const PlannedJob& planned, const MemoryPlan& plan) {
  const JobConfig& job = planned.job;
  const bool saves = job.save_every_steps > 0 || job.save_every_seconds > 0;
  const auto kept = static_cast<std::uint64_t>(saves ? job.keep_checkpoints + 1 : 1);
  std::uint64_t of_worker = plan.centre_file;
  if (of_worker > 0 && saves) {
    // Before the last checkpoint all rows change (Head::settle_all()).
    of_worker += (kept - 1) * undo_log_bytes(planned) + plan.centre_file;
  }
  return of_worker * static_cast<std::uint64_t>(planned.world_size) +
         kept * checkpoint_bytes(planned, plan);
}

std::vector<CheckFinding> output_findings(const JobConfig& job, std::uint64_t needed) {
  try {
    check_output(job);
    const FolderForAWhile folder(job.output);
    const std::uint64_t there = free_bytes(job.output);
    std::vector<CheckFinding> findings{room(there, needed)};
    const Written written = write_there(job.output, there / 2);
    if (written.error != 0 && there >= needed) {
      findings.push_back(unwritable(job.output, file_error_text(written.error)));
    } else if (written.error == 0) {
      findings.push_back({.what = "output", .found = "writable", .expected = {}});
      findings.push_back(speed(written.bytes_per_second));
    }
    return findings;
  } catch (const InputError& error) {
    return {unwritable(job.output, error.what())};
  }
}

std::vector<CheckFinding> shared_output_findings(const JobConfig& job) {
  const Written written = write_there(job.output, kWriteBlockBytes);
  if (written.error != 0) return {unwritable(job.output, file_error_text(written.error))};
  return {{.what = "output", .found = "writable, shared with the host of rank 0", .expected = {}}};
}

}  // namespace pfc
