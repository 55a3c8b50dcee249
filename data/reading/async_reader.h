// Reads of files that go on while the caller does something else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pfc {

/// A read of to.size() bytes. Owned by the caller, at one place in memory until it is finished.
struct FileRead {
  int fd = -1;
  std::uint64_t offset = 0;
  std::span<std::byte> to;
  std::size_t got = 0;  ///< fewer than asked for: the file ends there, or cannot be read there
};

/// Keeps up to depth() reads under way. Belongs to one thread.
class AsyncReader {
 public:
  /// Ends when no read is under way.
  virtual ~AsyncReader() = default;
  [[nodiscard]] virtual int depth() const = 0;
  [[nodiscard]] virtual int under_way() const = 0;
  /// Begins the read, at the latest when finish() has nothing to give and waits. REQUIRES:
  /// under_way() < depth().
  virtual void start(FileRead& read) = 0;
  /// Waits for a read that is done, whichever it is. Throws std::system_error where the kernel
  /// fails. REQUIRES: under_way() > 0.
  virtual FileRead& finish() = 0;
};

}  // namespace pfc
