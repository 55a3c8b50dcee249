// An event file of TensorBoard, which one process start writes.
#pragma once

#include <cstdint>
#include <filesystem>

#include "tensorboard/compat/proto/event.pb.h"

namespace pfc {

/// Each event becomes one frame, written with one system call: readers see it at once, and a
/// process that is killed leaves at most one frame that is cut short, at the end. Not thread-safe.
class EventFile {
 public:
  /// Makes the file, and says in it that the job's steps from `first_step` on follow: TensorBoard
  /// then drops such points of earlier files of the folder. Throws StorageError that names the file
  /// and the reason, for example that it is there already.
  EventFile(std::filesystem::path path, std::int64_t first_step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Adds what a step shows. Throws StorageError that names the file and the reason.
  void write(std::int64_t step, tensorboard::Summary summary);

 private:
  void write(tensorboard::Event event);

  const std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace pfc
