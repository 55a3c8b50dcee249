#include "worker/tensorboard/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"
#include "common/files/write_all.h"
#include "worker/tensorboard/record_frame.h"

namespace pfc {

EventFile::EventFile(std::filesystem::path path, std::int64_t first_step) : path_(std::move(path)) {
  fd_ = open_to_write(path_, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
  if (fd_ < 0) throw StorageError(path_.string() + ": cannot create: " + file_error_text(errno));
  tensorboard::Event version;
  version.set_file_version("brain.Event:2");
  version.mutable_source_metadata()->set_writer("pfc");
  write(std::move(version));
  tensorboard::Event start;
  start.set_step(first_step);
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  write(std::move(start));
}

void EventFile::write(std::int64_t step, tensorboard::Summary summary) {
  tensorboard::Event event;
  event.set_step(step);
  *event.mutable_summary() = std::move(summary);
  write(std::move(event));
}

void EventFile::write(tensorboard::Event event) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  event.set_wall_time(now.count());
  if (!write_all(fd_, frame_of(event.SerializeAsString()))) {
    throw StorageError(path_.string() + ": cannot write: " + file_error_text(errno));
  }
}

}  // namespace pfc
