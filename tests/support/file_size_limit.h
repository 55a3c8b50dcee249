// Simulates a full disk: writes beyond a file size fail.
#pragma once

#include <sys/resource.h>

#include <csignal>

#include "common/error.h"

namespace pfc {

/// While it lives, no file of this process can exceed `bytes`: the write fails with EFBIG.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    check(::getrlimit(RLIMIT_FSIZE, &before_) == 0, "getrlimit");
    const rlimit limited{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    check(::setrlimit(RLIMIT_FSIZE, &limited) == 0, "setrlimit");
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace pfc
