// Splits the bytes that come from a pipe into lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pfc {

/// A longer line is split, so that a program that never ends its line does not fill the memory.
inline constexpr std::size_t kMaxLine = 8'192;

class LineSplitter {
 public:
  /// The lines that these bytes complete, without their ends (\n or \r\n).
  std::vector<std::string> feed(std::string_view bytes);
  /// The line that the end of the stream completes: one, or none.
  std::vector<std::string> flush();

 private:
  void take(std::vector<std::string>& lines);

  std::string partial_;
};

}  // namespace pfc
