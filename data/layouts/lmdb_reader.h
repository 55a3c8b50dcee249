// The entries of an LMDB database, without liblmdb: that library maps the file and trusts every
// number in it, so that a damaged one ends the program.
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

/// Where in the file a value lies.
struct LmdbValue {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  bool has_own_pages = false;  ///< a large one, whose pages' header has not been looked at
};

/// Reads data.mdb as a 64-bit little-endian machine has written it (format version 1): the main
/// database of the last transaction. Meanwhile nobody may write. Time and memory are bounded by the
/// size of the file, which it borrows. Thread-safe. Throws InputError that names file and page,
/// what was found and what was expected.
class LmdbReader {
 public:
  explicit LmdbReader(const RegularFile& file);

  [[nodiscard]] std::uint64_t entries() const { return entries_; }  ///< as the file says
  /// Calls take(key, value) in the order of the keys, which is that of their bytes. Named databases
  /// and sorted duplicates in it are left out. Reads no pages that hold nothing but a value. Throws
  /// at the end where there were fewer or more than entries().
  void for_each(const std::function<void(std::string_view key, const LmdbValue&)>& take) const;
  /// Reads a value into `to`, which has room for it. Returns how many of its bytes there were:
  /// fewer where the file has become shorter.
  [[nodiscard]] std::size_t read(const LmdbValue& value, std::span<std::byte> to) const;

 private:
  struct Meta {
    std::uint64_t transaction = 0, root = 0, entries = 0;
    std::uint32_t page_bytes = 0;
    std::uint16_t depth = 0;
  };
  struct Node {
    std::uint64_t place = 0;  ///< in its page
    std::uint16_t flags = 0, key_bytes = 0;
    std::uint32_t low =
        0;  ///< of a leaf the size of its data, of a branch a part of the page's number
  };

  [[nodiscard]] Meta read_meta(std::uint64_t offset) const;
  [[nodiscard]] std::vector<std::byte> page(std::uint64_t number) const;
  [[nodiscard]] std::vector<Node> nodes(std::span<const std::byte> page,
                                        std::uint64_t number) const;
  void for_each_leaf(
      const std::function<void(std::span<const std::byte> page, std::uint64_t number)>& take) const;
  [[nodiscard]] LmdbValue value(std::span<const std::byte> page, std::uint64_t number,
                                const Node& node) const;
  /// For a value with pages of its own.
  [[nodiscard]] std::uint64_t pages_of(std::uint32_t bytes) const;
  [[noreturn]] void fail(std::uint64_t page, const std::string& what) const;

  const RegularFile& file_;
  std::uint64_t root_ = 0, entries_ = 0, pages_ = 0, page_bytes_ = 0;
  int depth_ = 0;
};

}  // namespace pfc
