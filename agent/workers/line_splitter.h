// Splits bytes from a pipe into lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pfc {

/// Longer lines are split, to bound the memory.
inline constexpr std::size_t kMaxLine = 8'192;

class LineSplitter {
 public:
  /// Returns the lines that these bytes complete, without \n or \r\n.
  std::vector<std::string> feed(std::string_view bytes);
  /// Returns the last line if it has no line end: one line or none.
  std::vector<std::string> flush();

 private:
  void take(std::vector<std::string>& lines);

  std::string partial_;
};

}  // namespace pfc
