#include "data/layouts/labels.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>

#include "common/error.h"

namespace pfc {

std::int64_t parse_label(std::string_view text) {
  std::int64_t label = -1;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, label);
  if (parsed.ec != std::errc{} || label < 0 || label >= kMaxClasses) return -1;
  const std::string_view rest(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  const bool whole =
      rest.empty() || (rest.front() == '.' && rest.find_first_not_of('0', 1) == rest.npos);
  return whole ? label : -1;
}

std::vector<std::int64_t> parse_labels(std::string_view text) {
  std::vector<std::int64_t> labels;
  while (true) {
    const std::size_t comma = text.find(',');
    labels.push_back(parse_label(text.substr(0, comma)));
    if (labels.back() < 0) return {};
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
    // "17,000000" is the number 17 with a decimal comma.
    if (text.size() > 1 && text[0] == '0' && text[1] != ',' && text[1] != '.') return {};
  }
  std::ranges::sort(labels, std::greater());
  if (std::ranges::adjacent_find(labels) != labels.end()) return {};
  return labels;
}

void check_image_count(std::int64_t images, const DatasetOptions& options,
                       const std::string& origin, const char* what) {
  if (options.num_image == 0 || options.num_image == images) return;
  throw InputError(fmt::format("{}: found {} {}, but num_image is {}: correct or remove num_image",
                               origin, images, what, options.num_image));
}

std::int64_t count_classes(const std::vector<std::int64_t>& labels, const DatasetOptions& options,
                           const std::string& origin) {
  if (labels.empty()) throw InputError(origin + ": no images; expected at least one");
  check_image_count(std::ssize(labels), options, origin);
  const std::int64_t classes = *std::ranges::max_element(labels) + 1;
  if (options.num_classes == 0) return classes;
  if (options.num_classes >= classes) return options.num_classes;
  throw InputError(fmt::format("{0}: found label {1}, but {2} is {3}: correct or remove {2}",
                               origin, classes - 1, options.classes_key, options.num_classes));
}

void warn_of_classes(DatasetInfo& info, std::int64_t least, const std::string& origin) {
  warn_of_least_label(info, least, origin);
  if (info.classes <= info.images) return;
  info.warnings.push_back(
      fmt::format("{} has {} classes, but there are only {} images: is a label wrong?", origin,
                  info.classes, info.images));
}

}  // namespace pfc
