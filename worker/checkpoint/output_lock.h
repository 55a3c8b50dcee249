// Keeps a job's output folder from other jobs.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace pfc {

/// Throws as OutputLock does where the folder can neither be written nor made, or where something
/// else than a regular file is in the place of the lock's. Changes nothing, and does not ask
/// whether another job has the folder.
void check_output_folder(const std::filesystem::path& output);

/// One job has an output folder at a time: rank 0 holds a lock (flock(2)) on OUTPUT/.lock for the
/// job's life. The kernel gives it back when the process ends, however it ends. On NFS it holds
/// between hosts. Where a file system has no locks, that is logged, and exclusive() is false. The
/// file says which job, host and process has it. Used by one thread at a time.
class OutputLock {
 public:
  /// Makes the folder where there is none. While another job has it, waits for at most `patience`,
  /// and logs that: a job that was killed may have workers that still end. Throws InputError that
  /// names the other job, CommError when an earlier worker of this job has it, as on a host that
  /// was cut off, and StorageError when the folder cannot be made or written.
  OutputLock(std::filesystem::path output, std::string job_id, std::chrono::milliseconds patience);

  /// Whether no other job can be at work in the folder.
  [[nodiscard]] bool exclusive() const { return exclusive_; }

  /// Throws StorageError when the folder was removed or replaced, or when another job has taken it
  /// (where there are no locks, or where an NFS server has given this one's away).
  void expect_held() const;

  /// Makes a folder, or a lock's file, that was removed anew, and locks it. Where the file is
  /// there, which another job may have made, does nothing. Throws as the constructor does.
  void take_again_if_removed();

 private:
  /// Closes it, which gives the lock back.
  struct Descriptor {
    int number = -1;
    Descriptor() = default;
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
  };

  void open_file();
  /// Whether the lock was taken, or there are no locks; false: another job has it.
  bool try_lock();
  [[noreturn]] void refuse() const;
  void write_owner() const;

  const std::filesystem::path output_;
  const std::filesystem::path file_;
  const std::string job_id_;
  Descriptor fd_;
  bool exclusive_ = false;
};

}  // namespace pfc
