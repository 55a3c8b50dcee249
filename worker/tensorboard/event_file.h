// A TensorBoard event file. Each start of a process writes one.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/files/fd.h"
#include "tensorboard/compat/proto/event.pb.h"

namespace pfc {

/// Writes each event as one frame with one system call. Readers see it immediately, and a killed
/// process leaves at most one incomplete frame, at the end. Not thread-safe.
class EventFile {
 public:
  /// Creates the file and records that it continues from `first_step`: TensorBoard then drops
  /// later points of earlier files in the folder. Throws StorageError that names the file and the
  /// reason, for example that it already exists.
  EventFile(std::filesystem::path path, std::int64_t first_step);

  /// Adds the summary of a step. Throws StorageError that names the file and the reason.
  void write(std::int64_t step, tensorboard::Summary summary);

 private:
  void write(tensorboard::Event event);

  const std::filesystem::path path_;
  Fd fd_;
};

}  // namespace pfc
