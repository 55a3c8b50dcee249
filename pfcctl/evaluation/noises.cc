#include "pfcctl/evaluation/noises.h"

#include <string_view>
#include <utility>

#include "common/error.h"
#include "data/text_lines.h"
#include "pfcctl/data/progress.h"

namespace pfc {

Noises::Noises(const std::vector<std::filesystem::path>& lists) {
  for (const std::filesystem::path& list : lists) {
    bool found = false;
    read_lines(list, end_at_interrupt, [&](std::string_view line, std::int64_t /*number*/) {
      const auto fields = fields_of(line, " ");
      if (fields.empty() || line.front() == '#') return;
      const bool in_second = line.find('\t') != std::string_view::npos && fields.size() > 1;
      names_.emplace(in_second ? fields[1] : joined(fields));
      found = true;
    });
    if (!found) throw InputError(list.string() + ": found no names, expected one a line");
  }
}

std::unique_ptr<Dataset> Noises::leave_out_of(const Dataset& dataset) {
  Choice others;
  for (std::int64_t i = 0; i < dataset.info().images; ++i) {
    const std::string path = dataset.name(i);
    std::string_view rest = path;
    bool noisy = false;
    while (true) {
      if (const auto name = names_.find(rest); name != names_.end()) {
        matched_.insert(*name);
        noisy = true;
      }
      const std::size_t slash = rest.find('/');
      if (slash == std::string_view::npos) break;
      rest.remove_prefix(slash + 1);
    }
    if (!noisy) others.images.push_back(i);
  }
  return choose(dataset, std::move(others));
}

}  // namespace pfc
