#include "pfcctl/chaos/event_line.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace pfc {
namespace {

/// Returns "14:03:07", in this machine's time zone.
std::string clock_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 16> text{};
  if (localtime_r(&now, &parts) != nullptr) std::strftime(text.data(), text.size(), "%T", &parts);
  return text.data();
}

}  // namespace

void tell(const std::string& kind, const std::string& what) {
  std::printf("%s  %-10s  %s\n", clock_text().c_str(), kind.c_str(), what.c_str());
  std::fflush(stdout);
}

std::string seconds_text(std::chrono::milliseconds time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", static_cast<double>(time.count()) / 1000);
  return text.data();
}

}  // namespace pfc
