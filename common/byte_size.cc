#include "common/byte_size.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "common/error.h"

namespace pfc {
namespace {

using Unit = std::pair<std::string_view, double>;

// A smaller number without a unit probably lacks its unit by mistake.
constexpr double kFewestWithoutUnit = 1e6;

constexpr std::array<Unit, 10> kByteUnits{{{"", 1},
                                           {"B", 1},
                                           {"KB", 1e3},
                                           {"MB", 1e6},
                                           {"GB", 1e9},
                                           {"TB", 1e12},
                                           {"KiB", 1024},
                                           {"MiB", 1024.0 * 1024},
                                           {"GiB", 1024.0 * 1024 * 1024},
                                           {"TiB", 1024.0 * 1024 * 1024 * 1024}}};

}  // namespace

std::uint64_t parse_byte_size(const std::string& text, const std::string& origin) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  constexpr double kMost = 1e18;
  if (parsed.ec == std::errc() && unit.empty() && number > 0 && number < kFewestWithoutUnit) {
    throw InputError(origin + ": found \"" + text + "\" without a unit; did you mean " + text +
                     "GB?");
  }
  for (const auto& [name, bytes] : kByteUnits) {
    if (parsed.ec != std::errc() || name != unit) continue;
    if (number > 0 && number * bytes <= kMost) {
      return static_cast<std::uint64_t>(std::llround(number * bytes));
    }
  }
  throw InputError(origin + ": found \"" + text +
                   "\", expected an amount of memory like 80GB, 80GiB or 512MB");
}

std::string byte_size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kNames{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  double amount = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 999.5 and above would need four digits.
  while (amount >= 999.5 && unit + 1 < kNames.size()) {
    amount /= 1024;
    ++unit;
  }
  std::array<char, 40> text{};
  const int decimals = amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0;
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, amount, kNames[unit]);
  return text.data();
}

}  // namespace pfc
