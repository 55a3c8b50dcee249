#include "worker/checkpoint/checkpoint_removal.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

namespace pfc {

CheckpointRemoval::CheckpointRemoval(RemoveFolder remove) : remove_(std::move(remove)) {}

CheckpointRemoval::~CheckpointRemoval() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CheckpointRemoval::start(std::filesystem::path folder) {
  {
    const std::lock_guard lock(mutex_);
    folders_.push_back(std::move(folder));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
}

void CheckpointRemoval::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return folders_.empty(); });
}

void CheckpointRemoval::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !folders_.empty(); });
    if (folders_.empty()) return;
    const std::filesystem::path folder = folders_.front();
    lock.unlock();
    remove(folder);
    lock.lock();
    folders_.pop_front();
    changed_.notify_all();
  }
}

void CheckpointRemoval::remove(const std::filesystem::path& folder) const {
  try {
    remove_(folder);
  } catch (const std::exception& error) {
    spdlog::warn("{}; the next job in this output folder tries again to remove this old checkpoint",
                 error.what());
  }
}

}  // namespace pfc
