#include "coordinator/web/last_reading.h"

#include <algorithm>
#include <cstddef>

namespace pfc {
namespace {

using std::chrono::milliseconds;

// Number of reads kept. The longest pause between them counts as the reader's interval.
constexpr std::size_t kReadings = 9;
constexpr milliseconds kSlack{1'000};

}  // namespace

void LastReading::read(TimePoint now) {
  last_.push_back(now);
  if (last_.size() > kReadings) last_.pop_front();
}

milliseconds LastReading::wait(TimePoint now) const {
  if (last_.size() < 2) return {};
  Clock::duration longest{};
  for (std::size_t i = 1; i < last_.size(); ++i)
    longest = std::max(longest, last_[i] - last_[i - 1]);
  const auto pause = std::chrono::ceil<milliseconds>(longest) + kSlack;
  if (now - last_.back() > pause) return {};  // the reader has stopped
  return std::min(pause, most_);
}

}  // namespace pfc
