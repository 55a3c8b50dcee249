// Rank 0's log lines before the first step: data, memory, resumed state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

/// Keeps the first kMost output lines of rank 0 that have the form of lines of training.log
/// ("Training: DATE TIME-TEXT"), until the first step is logged.
class StartNotes {
 public:
  static constexpr std::size_t kMost = 8;
  static constexpr std::size_t kLongest = 300;  ///< bytes per line

  void add(std::string_view line);
  /// Called when another generation begins.
  void clear() { *this = {}; }

  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::vector<std::string> notes_;
  bool complete_ = false;
};

}  // namespace pfc
