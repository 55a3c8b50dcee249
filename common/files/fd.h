// Owner of a file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace pfc {

/// Closes the descriptor when it is destroyed or replaced. Converts to int for system calls.
class Fd {
 public:
  Fd() = default;
  /// Takes ownership. A negative number, as open(2) returns after an error, means no descriptor.
  explicit Fd(int number) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset();
    number_ = other.release();
    return *this;
  }
  ~Fd() { reset(); }

  operator int() const& { return number_; }  // NOLINT(google-explicit-constructor)
  operator int() && = delete;                // the temporary Fd would close it at once
  int release() { return std::exchange(number_, -1); }
  void reset() {
    if (number_ >= 0) ::close(release());
  }

 private:
  int number_ = -1;
};

}  // namespace pfc
