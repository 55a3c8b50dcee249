// Removes old checkpoints on a thread of its own, so that training goes on meanwhile.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

namespace pfc {

/// Removes a folder of a checkpoint. Throws StorageError or std::filesystem::filesystem_error.
using RemoveFolder = std::function<void(const std::filesystem::path&)>;

/// Folders are removed one after the other. One that cannot be removed is logged and left: the next
/// job in the same output folder tries again. start() and wait() may be called from any
/// thread.
class CheckpointRemoval {
 public:
  explicit CheckpointRemoval(RemoveFolder remove);
  /// Waits until all folders have been tried.
  ~CheckpointRemoval();
  CheckpointRemoval(const CheckpointRemoval&) = delete;
  CheckpointRemoval& operator=(const CheckpointRemoval&) = delete;

  /// Returns at once. REQUIRES: the folder is no longer used, and no folder of that name is made.
  void start(std::filesystem::path folder);
  /// Waits until all folders that were given to start() have been tried.
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
  std::thread thread_;  ///< begun by the first start()
};

}  // namespace pfc
