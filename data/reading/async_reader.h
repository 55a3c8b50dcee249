// Asynchronous file reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace pfc {

/// A read of to.size() bytes. Owned by the caller; must not move until it is finished.
struct FileRead {
  int fd = -1;
  std::uint64_t offset = 0;
  std::span<std::byte> to;
  /// Bytes read: fewer than requested if the file ends there or cannot be read.
  std::size_t got = 0;
};

/// Runs up to depth() reads concurrently. Used by one thread.
class AsyncReader {
 public:
  /// Blocks until all reads are finished.
  virtual ~AsyncReader() = default;
  [[nodiscard]] virtual int depth() const = 0;
  [[nodiscard]] virtual int under_way() const = 0;
  /// Starts the read now, or at the latest when finish() waits. REQUIRES: under_way() < depth().
  virtual void start(FileRead& read) = 0;
  /// Blocks until any read is finished, and returns it. Throws std::system_error if the kernel
  /// fails. REQUIRES: under_way() > 0.
  virtual FileRead& finish() = 0;
};

enum class ReadMethod {
  kAuto,     ///< io_uring if the kernel supports it, otherwise threads
  kRing,     ///< io_uring: used by one thread, with few system calls
  kThreads,  ///< pread(2) on threads, one call per read
};

/// Containers often forbid io_uring, and kernels before 5.6 lack it. kAuto then uses threads, and
/// kRing returns nullptr. REQUIRES: depth > 0.
std::unique_ptr<AsyncReader> make_async_reader(int depth, ReadMethod method = ReadMethod::kAuto);

/// Returns nullptr if the kernel refuses a ring, or the ring does not support reads.
std::unique_ptr<AsyncReader> make_ring_reader(int depth);
/// Starts at most 16 threads, or `depth` if that is smaller. Further reads are queued.
std::unique_ptr<AsyncReader> make_thread_reader(int depth);

}  // namespace pfc
