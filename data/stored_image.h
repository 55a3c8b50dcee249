// The stored bytes of one image: where they are, and reading them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/files/regular_file.h"

namespace pfc {

/// Location of an image in a file.
struct Extent {
  std::shared_ptr<const RegularFile> file;  ///< nullptr: the image is not in a file
  std::uint64_t offset = 0;
  /// Number of bytes to read ahead. The image may have more bytes, or fewer.
  std::uint64_t bytes = 0;
};

/// Memory for one image, reused for the next one.
struct ImageBuffer {
  std::vector<std::byte> stored;  ///< as in the file
  std::vector<std::byte> parsed;  ///< an image that the file holds in another form
};

/// Reads the bytes of an image when they are needed. Reads with pread(2), not mmap, so that a file
/// that is truncated or fails while it is read causes an error and not a signal.
class StoredImage {
 public:
  /// `ahead`: bytes from the beginning of the extent that are in memory already; may be empty.
  /// Borrows it and the buffer.
  StoredImage(Extent extent, std::span<const std::byte> ahead, ImageBuffer& buffer);

  /// Returns the bytes of the extent. Valid until the next call. Throws like first().
  std::span<const std::byte> all() { return first(extent_.bytes); }
  /// Returns the first `bytes` bytes, which may be more than the extent. Valid until the next call.
  /// Throws DamagedImage that names file and offset if the file has fewer bytes or cannot be read.
  std::span<const std::byte> first(std::size_t bytes);
  /// Returns memory in which to join the parts of an image that is not stored in one piece.
  [[nodiscard]] std::vector<std::byte>& parsed() { return buffer_.parsed; }

 private:
  const Extent extent_;
  std::span<const std::byte> have_;
  ImageBuffer& buffer_;
};

}  // namespace pfc
