#include "coordinator/history/start_notes.h"

#include "common/one_line.h"

namespace pfc {

void StartNotes::add(std::string_view line) {
  constexpr std::string_view kBegin = "Training: ";
  constexpr std::size_t kTime = std::string_view("2026-05-12 00:00:42,110-").size();
  if (complete_ || !line.starts_with(kBegin) || line.size() < kBegin.size() + kTime) return;
  if (line[kBegin.size() + kTime - 1] != '-') return;
  const std::string_view text = line.substr(kBegin.size() + kTime);
  complete_ = text.starts_with("Speed ") || notes_.size() == kMost;
  if (!complete_) notes_.push_back(one_line(text, kLongest));
}

}  // namespace pfc
