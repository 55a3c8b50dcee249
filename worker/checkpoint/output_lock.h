// Locks a job's output folder, so that no other job uses it.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "common/files/fd.h"

namespace pfc {

/// Throws as OutputLock does if the folder can be neither written nor created, or if the lock
/// file is not a regular file. Changes nothing, and does not check whether another job has the
/// folder.
void check_output_folder(const std::filesystem::path& output);

/// A lock that gives an output folder to one job at a time. Rank 0 holds it for the job's life:
/// flock(2) on OUTPUT/.lock. The kernel releases it when the process ends for any reason.
/// On NFS it works between hosts. If a file system has no locks, that is logged, and exclusive()
/// is false. The file names the job, host and process that hold it. Used by one thread at a time.
class OutputLock {
 public:
  /// Creates the folder if it is missing. While another job has it, logs that and waits for at
  /// most `patience`, because workers of a killed job may still be ending. Throws InputError that
  /// names the other job; CommError if an earlier worker of this job has it, for example on a
  /// host that was cut off; StorageError if the folder cannot be created or written.
  OutputLock(std::filesystem::path output, std::string job_id, std::chrono::milliseconds patience);

  /// Returns whether the lock guarantees that no other job uses the folder.
  [[nodiscard]] bool exclusive() const { return exclusive_; }

  /// Throws StorageError if the folder was removed or replaced, or if another job has taken it
  /// (without file locks, or if an NFS server has lost this lock).
  void expect_held() const;

  /// If the folder or the lock file was removed, creates it again and locks it. Does nothing if
  /// the lock file exists, which another job may have created. Throws as the constructor does.
  void take_again_if_removed();

 private:
  void open_file();
  /// Returns false if another job has the lock; true if taken, or without locks.
  bool try_lock();
  [[noreturn]] void refuse() const;
  void write_owner() const;

  const std::filesystem::path output_;
  const std::filesystem::path file_;
  const std::string job_id_;
  Fd fd_;
  bool exclusive_ = false;
};

}  // namespace pfc
