#include "common/files/append_file.h"

#include <fcntl.h>

#include <cerrno>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"
#include "common/files/write_all.h"

namespace pfc {

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = open_to_write(path_, O_WRONLY | O_CREAT | O_APPEND);
  if (fd_ < 0) throw StorageError(path_.string() + ": cannot open: " + file_error_text(errno));
}

void AppendFile::write_line(std::string_view line) {
  std::string text(line);
  text += '\n';
  if (!write_all(fd_, text)) {
    throw StorageError(path_.string() + ": cannot write: " + file_error_text(errno));
  }
}

}  // namespace pfc
