#include "common/config/parameters/name_patterns.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/config/json_reader.h"
#include "common/config/nearest.h"
#include "common/error.h"

namespace pfc {

bool matches_pattern(std::string_view name, std::string_view pattern) {
  // If a character differs, the last "*" takes one more character. Earlier stars need not change.
  std::size_t n = 0, p = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool matches_any(std::string_view name, std::span<const std::string> patterns) {
  return std::ranges::any_of(patterns, [&](const auto& p) { return matches_pattern(name, p); });
}

std::vector<std::string> beginnings_of(const std::string& name) {
  std::vector<std::string> beginnings;
  for (std::size_t dot = 0; dot != std::string::npos;) {
    dot = name.find('.', dot + 1);
    beginnings.push_back(name.substr(0, dot));
  }
  return beginnings;
}

void check_patterns(std::string_view key, std::span<const std::string> patterns,
                    std::span<const std::string> names, std::string_view what) {
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const auto& n) { return matches_pattern(n, pattern); })) {
      continue;
    }
    std::vector<std::string> beginnings;
    std::set<std::string> first_words;
    for (const std::string& name : names) {
      for (std::string& each : beginnings_of(name)) beginnings.push_back(std::move(each));
      first_words.insert(name.substr(0, name.find('.')));
    }
    std::string fixed = pattern.substr(0, pattern.find('*'));
    if (fixed.ends_with('.')) fixed.pop_back();
    const std::string nearest = nearest_word(fixed, beginnings);
    throw InputError(fmt::format(
        "{}: {} matches no {}{}; names begin with {}", key, brief(nlohmann::json(pattern)), what,
        nearest.empty() ? "" : fmt::format(", did you mean \"{}\"?", nearest),
        fmt::join(first_words, ", ")));
  }
}

}  // namespace pfc
