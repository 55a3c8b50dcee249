#include "pfcctl/evaluation/groups.h"

#include <spdlog/fmt/fmt.h>

#include <map>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/one_line.h"
#include "data/text_lines.h"
#include "model/evaluation/evaluation.h"
#include "pfcctl/data/progress.h"

namespace pfc {

std::vector<VerificationSet> split_by_group(VerificationSet set,
                                            const std::filesystem::path& list) {
  std::vector<VerificationSet> groups;
  std::map<std::string, std::size_t, std::less<>> places;  // indices in `groups`
  std::size_t pair = 0;
  read_lines(list, end_at_interrupt, [&](std::string_view group, std::int64_t line) {
    if (group.empty() || pair == set.same.size()) {
      throw InputError(fmt::format(
          "{} line {}: found {}, expected one line with a group for each of the {} pairs of {}",
          list.string(), line, group.empty() ? "no group" : "an extra line", set.same.size(),
          set.file.string()));
    }
    const auto [place, is_new] = places.emplace(group, groups.size());
    if (is_new) {
      const std::string name = one_line(group, 40);
      groups.push_back({.name = set.name + "/" + name,
                        .file = set.file.string() + " (group " + name + ")",
                        .images = {},
                        .same = {}});
    }
    VerificationSet& to = groups[place->second];
    to.images.push_back(std::move(set.images[2 * pair]));
    to.images.push_back(std::move(set.images[2 * pair + 1]));
    to.same.push_back(set.same[pair++]);
  });
  if (pair < set.same.size()) {
    throw InputError(fmt::format("{}: found {} lines, expected one for each of the {} pairs of {}",
                                 list.string(), pair, set.same.size(), set.file.string()));
  }
  for (const VerificationSet& group : groups) check_verification_set(group, {}, {});
  return groups;
}

}  // namespace pfc
