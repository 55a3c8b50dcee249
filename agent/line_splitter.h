// Bytes from a pipe become lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pfc {

/// A line longer than this is given in parts: a program that never ends its line costs no memory.
inline constexpr std::size_t kMaxLine = 8'192;

class LineSplitter {
 public:
  /// The lines that these bytes complete, without their ends (\n or \r\n).
  std::vector<std::string> feed(std::string_view bytes);
  /// What is left at the end of the stream; empty: nothing.
  std::vector<std::string> flush();

 private:
  void take(std::vector<std::string>& lines);

  std::string partial_;
};

}  // namespace pfc
