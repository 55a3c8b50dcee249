// The kinds of error that programs tell apart (docs/errors.md).
#pragma once

#include <algorithm>
#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace pfc {

/// A bad file, flag, key or host list, or a training that has diverged. The message is one line:
/// what was found where, what was expected, what to do. Programs print it and exit with
/// kExitBadInput.
class InputError : public std::runtime_error {
 public:
  /// A message may quote a file. what() would end at a NUL in it, so these become spaces.
  explicit InputError(std::string message)
      : std::runtime_error((std::ranges::replace(message, '\0', ' '), std::move(message))) {}
};

/// Another worker or the network failed. The worker reports it and exits with kExitPeerFailed.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A GPU or its driver failed. The worker reports it and exits with kExitFailed.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file could not be written, for example because the disk is full. Handled as an InputError.
class StorageError : public InputError {
 public:
  using InputError::InputError;
};

/// A programmer's error: throws std::logic_error with file and line, also in release builds.
inline void check(bool ok, std::string_view what,
                  std::source_location where = std::source_location::current()) {
  if (!ok) [[unlikely]] {
    throw std::logic_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                           ": " + std::string(what));
  }
}

}  // namespace pfc
