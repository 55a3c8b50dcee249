// Removes old checkpoints on a separate thread while training continues.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

namespace pfc {

/// Removes the folder of a checkpoint. Throws StorageError or std::filesystem::filesystem_error.
using RemoveFolder = std::function<void(const std::filesystem::path&)>;

/// Removes folders one after the other. Logs and leaves a folder that cannot be removed; the next
/// job in the same output folder tries again. start() and wait() may be called from any thread.
class CheckpointRemoval {
 public:
  explicit CheckpointRemoval(RemoveFolder remove);
  /// Waits until it has tried to remove all folders.
  ~CheckpointRemoval();
  CheckpointRemoval(const CheckpointRemoval&) = delete;
  CheckpointRemoval& operator=(const CheckpointRemoval&) = delete;

  /// Returns at once. REQUIRES: the folder is no longer used, and no new folder gets its name.
  void start(std::filesystem::path folder);
  /// Waits until it has tried to remove all folders that were given to start().
  void wait();

 private:
  void run();
  void remove(const std::filesystem::path& folder) const;

  const RemoveFolder remove_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<std::filesystem::path> folders_;  ///< the first is being removed
  bool stopping_ = false;
  std::thread thread_;  ///< started by the first start()
};

}  // namespace pfc
