#include "data/identity_names.h"

#include <spdlog/fmt/fmt.h>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "data/text_lines.h"

namespace pfc {

std::string IdentityNames::at(std::int64_t label) const {
  const auto i = static_cast<std::size_t>(label);
  if (i >= ends_.size()) return {};
  const std::uint64_t begin = i == 0 ? 0 : ends_[i - 1];
  return text_.substr(begin, ends_[i] - begin);
}

IdentityNames read_identity_names(const std::filesystem::path& file, std::int64_t classes) {
  IdentityNames names;
  if (!something_at(file)) return names;
  read_lines(file, {}, [&](std::string_view line, std::int64_t) { names.append(line); });
  if (names.size() == classes) return names;
  throw InputError(
      fmt::format("{}: found {} lines, expected {}, one name for each class; correct or remove it",
                  file.string(), names.size(), classes));
}

}  // namespace pfc
