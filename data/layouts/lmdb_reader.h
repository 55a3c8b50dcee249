// Reads an LMDB database without liblmdb. That library maps the file and trusts every number in
// it, so a damaged file would crash the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/regular_file.h"

namespace pfc {

/// Location of a value in the file.
struct LmdbValue {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  /// Size of the header before a large value. The header is not checked yet.
  std::uint32_t header_bytes = 0;
};

/// Reads data.mdb as written by a 64-bit little-endian machine (format version 1): the main
/// database of the last transaction. The file must not be written meanwhile. Time and memory are
/// limited by the size of the file, which is borrowed. Thread-safe. Throws InputError that names
/// file and page, what was found and what was expected.
class LmdbReader {
 public:
  explicit LmdbReader(const RegularFile& file);

  [[nodiscard]] std::uint64_t entries() const { return entries_; }  ///< as stated in the file
  /// Calls take(key, value) in the byte order of the keys. Skips named databases and sorted
  /// duplicates. Does not read the pages that hold only a large value. Throws at the end if the
  /// number of entries differs from entries().
  void for_each(const std::function<void(std::string_view key, const LmdbValue&)>& take) const;
  /// Checks the header of a value and returns the rest. `stored`: header and value. Throws
  /// InputError.
  [[nodiscard]] std::span<const std::byte> content(const LmdbValue& value,
                                                   std::span<const std::byte> stored) const;

 private:
  struct Meta {
    std::uint64_t transaction = 0, root = 0, entries = 0;
    std::uint32_t page_bytes = 0;
    std::uint16_t depth = 0;
  };
  struct Node {
    std::uint64_t place = 0;  ///< offset in its page
    std::uint16_t flags = 0, key_bytes = 0;
    std::uint32_t low =
        0;  ///< in a leaf the size of its data; in a branch a part of the page number
  };

  [[nodiscard]] Meta read_meta(std::uint64_t offset) const;
  [[nodiscard]] std::vector<std::byte> page(std::uint64_t number) const;
  [[nodiscard]] std::vector<Node> nodes(std::span<const std::byte> page,
                                        std::uint64_t number) const;
  void for_each_leaf(
      const std::function<void(std::span<const std::byte> page, std::uint64_t number)>& take) const;
  [[nodiscard]] LmdbValue value(std::span<const std::byte> page, std::uint64_t number,
                                const Node& node) const;
  /// Returns the number of pages of a value with its own pages.
  [[nodiscard]] std::uint64_t pages_of(std::uint32_t bytes) const;
  [[noreturn]] void fail(std::uint64_t page, const std::string& what) const;

  const RegularFile& file_;
  std::uint64_t root_ = 0, entries_ = 0, pages_ = 0, page_bytes_ = 0;
  int depth_ = 0;
};

}  // namespace pfc
