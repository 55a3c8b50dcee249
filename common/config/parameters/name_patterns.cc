#include "common/config/parameters/name_patterns.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "common/config/json_reader.h"
#include "common/config/nearest.h"
#include "common/error.h"

namespace pfc {

bool matches_pattern(std::string_view name, std::string_view pattern) {
  // If a character differs, the last "*" takes one more; earlier ones need not change.
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

void check_patterns(std::string_view key, std::span<const std::string> patterns,
                    std::span<const std::string> names) {
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const auto& n) { return matches_pattern(n, pattern); })) {
      continue;
    }
    std::vector<std::string> beginnings;  // "layer1", "layer1.0", ..., the whole name
    std::set<std::string> first_words;
    for (const std::string& name : names) {
      for (std::size_t dot = 0; dot != std::string::npos;) {
        dot = name.find('.', dot + 1);
        beginnings.push_back(name.substr(0, dot));
      }
      first_words.insert(name.substr(0, name.find('.')));
    }
    std::string fixed = pattern.substr(0, pattern.find('*'));
    if (fixed.ends_with('.')) fixed.pop_back();
    const std::string nearest = nearest_word(fixed, beginnings);
    throw InputError(fmt::format(
        "{}: {} matches no tensor{}; names begin with {}", key, brief(nlohmann::json(pattern)),
        nearest.empty() ? "" : fmt::format(", did you mean \"{}\"?", nearest),
        fmt::join(first_words, ", ")));
  }
}

}  // namespace pfc
