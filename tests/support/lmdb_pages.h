// Builds a small LMDB database with smaller pages than liblmdb's, so that most mutated bytes
// matter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pfc::testing {

class LmdbPages {
 public:
  static constexpr std::size_t kPage = 256;
  using Entries = std::vector<std::pair<std::string, std::string>>;

  /// Entries are sorted by key. Values that do not fit into a page get overflow pages.
  static std::string write(const Entries& entries) {
    LmdbPages made;
    made.add_leaves(entries);
    const std::uint64_t root = made.add_root();
    for (std::uint64_t meta = 0; meta < 2; ++meta) made.write_meta(meta, root, entries.size());
    return made.file_;
  }

 private:
  static constexpr std::uint64_t kBranch = 1, kLeaf = 2, kOverflow = 4, kMeta = 8, kBigData = 1;

  LmdbPages() : file_(2 * kPage, '\0') {}

  void put(std::size_t at, std::uint64_t number, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) file_[at + i] = static_cast<char>(number >> (8 * i));
  }
  std::uint64_t new_pages(std::size_t count, std::uint64_t flags) {
    const std::uint64_t number = file_.size() / kPage;
    file_.resize(file_.size() + count * kPage);
    put(number * kPage, number, 8);
    put(number * kPage + 10, flags, 2);
    return number;
  }

  /// Writes overflow pages and returns the node's data: the number of the first page.
  std::string overflow(const std::string& value) {
    const std::size_t count = (16 + value.size() + kPage - 1) / kPage;
    const std::uint64_t page = new_pages(count, kOverflow);
    put(page * kPage + 12, count, 4);
    file_.replace(page * kPage + 16, value.size(), value);
    return std::string(reinterpret_cast<const char*>(&page), sizeof page);
  }

  /// Adds a node to the current page if it fits.
  bool add_node(std::uint64_t page, std::uint64_t low, std::uint64_t flags, const std::string& key,
                const std::string& data) {
    const std::size_t size = (8 + key.size() + data.size() + 1) / 2 * 2;
    if (lower_ + 2 + size > upper_) return false;
    upper_ -= size;
    const std::size_t begin = page * kPage, at = begin + upper_;
    put(begin + lower_, upper_, 2);
    lower_ += 2;
    put(begin + 12, lower_, 2);
    put(begin + 14, upper_, 2);
    put(at, low, 4);
    put(at + 4, flags, 2);
    put(at + 6, key.size(), 2);
    file_.replace(at + 8, key.size() + data.size(), key + data);
    return true;
  }
  void open_page() {
    lower_ = 16;
    upper_ = kPage;
  }

  void add_leaves(const Entries& entries) {
    for (const auto& [key, value] : entries) {
      const bool big = 8 + key.size() + value.size() > kPage / 2;
      const std::string data = big ? overflow(value) : value;
      const auto add = [&] {
        return !leaves_.empty() &&
               add_node(leaves_.back().second, value.size(), big ? kBigData : 0, key, data);
      };
      if (add()) continue;
      leaves_.emplace_back(key, new_pages(1, kLeaf));
      open_page();
      add();
    }
  }
  std::uint64_t add_root() {
    const std::uint64_t root = new_pages(1, kBranch);
    open_page();
    for (const auto& [key, page] : leaves_) {
      add_node(root, page & 0xffffffff, page >> 32, page == leaves_.front().second ? "" : key, "");
    }
    return root;
  }
  void write_meta(std::uint64_t meta, std::uint64_t root, std::size_t entries) {
    const std::size_t at = meta * kPage;
    put(at, meta, 8);
    put(at + 10, kMeta, 2);
    put(at + 16, 0xbeefc0de, 4);
    put(at + 20, 1, 4);
    put(at + 40, kPage, 4);
    put(at + 94, 2, 2);
    put(at + 120, entries, 8);
    put(at + 128, root, 8);
    put(at + 136, file_.size() / kPage - 1, 8);
    put(at + 144, 1 + meta, 8);
  }

  std::string file_;
  std::vector<std::pair<std::string, std::uint64_t>> leaves_;  // first key, page
  std::size_t lower_ = 16, upper_ = kPage;                     // limits of the current page
};

}  // namespace pfc::testing
