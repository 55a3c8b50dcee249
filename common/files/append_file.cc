#include "common/files/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"

namespace pfc {

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = open_to_write(path_, O_WRONLY | O_CREAT | O_APPEND);
  if (fd_ < 0) throw StorageError(path_.string() + ": cannot open: " + file_error_text(errno));
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::write_line(std::string_view line) {
  std::string text(line);
  text += '\n';
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      throw StorageError(path_.string() + ": cannot write: " + file_error_text(errno));
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace pfc
