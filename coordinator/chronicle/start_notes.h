// What rank 0 tells of the job in its log before the first step: data, memory, where it goes on.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

/// Takes the lines of rank 0's output, and keeps the first kMost of those that have the form of
/// output/training.log ("Training: DATE TIME-TEXT"), until the first step is told.
class StartNotes {
 public:
  static constexpr std::size_t kMost = 8;
  static constexpr std::size_t kLongest = 300;  ///< bytes of one

  void add(std::string_view line);
  /// Another generation begins.
  void clear() { *this = {}; }

  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::vector<std::string> notes_;
  bool complete_ = false;
};

}  // namespace pfc
