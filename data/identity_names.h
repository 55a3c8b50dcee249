// Names of the people in a data set: identities.txt, whose line k (from 0) is the name of label k.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

/// Names by label, contiguous in memory. Thread-safe for reading.
class IdentityNames {
 public:
  void append(std::string_view name) {
    text_ += name;
    ends_.push_back(text_.size());
  }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  /// Returns the name; empty if there are no names. REQUIRES: label >= 0.
  [[nodiscard]] std::string at(std::int64_t label) const;
  [[nodiscard]] std::size_t bytes() const {
    return text_.capacity() + ends_.capacity() * sizeof(std::uint64_t);
  }

 private:
  std::string text_;
  std::vector<std::uint64_t> ends_;  ///< end offset of each name in text_
};

/// Returns an empty list if the file does not exist. Throws InputError if it cannot be read, or
/// does not have `classes` lines.
IdentityNames read_identity_names(const std::filesystem::path& file, std::int64_t classes);

}  // namespace pfc
