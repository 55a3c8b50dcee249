// The few kinds of error (docs/errors.md): who catches each, and what then happens.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pfc {

/// A bad file, flag, key or host list. The message is one line that names it, says what was found,
/// what was expected and what to do. Programs print it and exit with 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A peer or the network failed. The worker leaves its generation and joins the next one.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The device or its driver failed. The worker exits; its agent reports the message.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A full disk, or another failure of a file that was ours to write. Also an InputError: one line.
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
