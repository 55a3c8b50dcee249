// The kinds of error that programs distinguish (docs/errors.md).
#pragma once

#include <algorithm>
#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace pfc {

/// Wrong input (a file, flag, key or host list), or a training that has diverged. The message is
/// one line: what was found where, what was expected, what to do. Exit code kExitBadInput.
class InputError : public std::runtime_error {
 public:
  /// Replaces NUL by a space, because what() would end at a NUL. A message that quotes a file may
  /// contain one.
  explicit InputError(std::string message)
      : std::runtime_error((std::ranges::replace(message, '\0', ' '), std::move(message))) {}
};

/// Another worker or the network failed. The worker reports the error and exits with
/// kExitPeerFailed.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A GPU or its driver failed. The worker reports the error and exits with kExitFailed.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file could not be written, for example because the disk is full. Handled like an InputError.
class StorageError : public InputError {
 public:
  using InputError::InputError;
};

/// Throws std::logic_error with file and line unless `ok`, also in release builds.
inline void check(bool ok, std::string_view what,
                  std::source_location where = std::source_location::current()) {
  if (!ok) [[unlikely]] {
    throw std::logic_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                           ": " + std::string(what));
  }
}

}  // namespace pfc
