#include "agent/workers/line_splitter.h"

#include <algorithm>
#include <utility>

namespace pfc {

std::vector<std::string> LineSplitter::feed(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t room = kMaxLine - partial_.size();
    const std::size_t count = std::min({end, room, bytes.size()});
    partial_ += bytes.substr(0, count);
    bytes.remove_prefix(count);
    const bool ended = !bytes.empty() && bytes.front() == '\n';
    if (ended) bytes.remove_prefix(1);
    if (ended || partial_.size() == kMaxLine) take(lines);
  }
  return lines;
}

std::vector<std::string> LineSplitter::flush() {
  std::vector<std::string> lines;
  if (!partial_.empty()) take(lines);
  return lines;
}

void LineSplitter::take(std::vector<std::string>& lines) {
  if (!partial_.empty() && partial_.back() == '\r') partial_.pop_back();
  lines.push_back(std::exchange(partial_, {}));
}

}  // namespace pfc
