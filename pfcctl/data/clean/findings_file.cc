#include "pfcctl/data/clean/findings_file.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"
#include "data/text_lines.h"
#include "pfcctl/data/embed/embedding_writer.h"
#include "pfcctl/data/progress.h"

namespace pfc {

namespace {

using nlohmann::ordered_json;
using ImageNames = std::map<std::int64_t, std::string>;  // by image

/// Sets the names of images [first, end) that are in `names`.
void read_names(const std::filesystem::path& file, std::int64_t first, std::int64_t end,
                ImageNames& names) {
  if (!something_at(file)) return;
  std::int64_t lines = 0;
  auto next = names.lower_bound(first);
  read_lines(file, end_at_interrupt, [&](std::string_view line, std::int64_t number) {
    lines = number;
    if (next == names.end() || next->first != first + number - 1) return;
    next->second = line;
    ++next;
  });
  if (lines == end - first) return;
  throw InputError(
      fmt::format("{}: found {} lines, expected {}, one for each embedding; write "
                  "it again with pfcctl embed, or move it away",
                  file.string(), lines, end - first));
}

/// Returns the names of all images in the findings; empty without a file of names.
ImageNames names_of(const std::vector<Finding>& findings, const OpenedEmbeddings& of) {
  ImageNames names;
  for (const Finding& f : findings) {
    for (const std::int64_t image : f.images) names[image];
    for (const std::int64_t image : {f.image, f.other_image}) {
      if (image >= 0) names[image];
    }
  }
  read_names(path_of_names(of.files.front()), 0, of.first_test_image, names);
  if (of.files.size() > 1) {
    read_names(path_of_names(of.files.back()), of.first_test_image, of.dataset->info().images,
               names);
  }
  return names;
}

/// `key`: "row" or "label". Test images and identities begin at `first_test`.
ordered_json numbered(const char* key, std::int64_t i, std::int64_t first_test,
                      const std::string& name) {
  const bool test = i >= first_test;
  ordered_json told{{key, test ? i - first_test : i}};
  if (!name.empty()) told["name"] = name;
  if (test) told["test"] = true;
  return told;
}

ordered_json json_of(const Finding& f, const OpenedEmbeddings& of, const ImageNames& names) {
  constexpr std::array kActions = {"move", "drop", "merge", "split", "drop", "drop"};
  const auto image = [&](std::int64_t i) {
    return numbered("row", i, of.first_test_image, names.at(i));
  };
  const auto identity = [&](std::int64_t i) {
    return numbered("label", i, of.first_test_identity, of.dataset->identity(i));
  };
  const bool moves_to_test =
      f.kind == FindingKind::kWrongLabel && f.other_identity >= of.first_test_identity;
  ordered_json told{{"kind", kFindingNames[static_cast<std::size_t>(f.kind)]},
                    {"action", moves_to_test ? "drop" : kActions[static_cast<std::size_t>(f.kind)]},
                    {"confidence", f.confidence},
                    {"score", f.score}};
  if (f.image >= 0) told["image"] = image(f.image);
  told["identity"] = identity(f.identity);
  if (f.other_image >= 0) told["other_image"] = image(f.other_image);
  if (f.other_identity >= 0) told["other_identity"] = identity(f.other_identity);
  for (const std::int64_t i : f.images) told["images"].push_back(image(i));
  for (const auto& [name, value] : f.evidence) {
    const bool whole = std::floor(value) == value;  // a number of images
    told["evidence"][name] =
        whole ? ordered_json(static_cast<std::int64_t>(value)) : ordered_json(value);
  }
  return told;
}

}  // namespace

bool has_name(const Dataset& dataset, const std::filesystem::path& path, std::int64_t image,
              const std::string& name) {
  const std::string own = dataset.name(image);
  return name.ends_with(
      one_line(own.substr(own.starts_with(path.string()) ? path.native().size() : 0)));
}

void expect_names(const std::filesystem::path& names, std::int64_t images) {
  ImageNames none;
  read_names(names, 0, images, none);
}

void write_findings(BufferedFile& out, const std::vector<Finding>& findings,
                    const OpenedEmbeddings& of) {
  const ImageNames names = names_of(findings, of);
  for (const Finding& f : findings) {
    out.write(json_of(f, of, names).dump(-1, ' ', false, ordered_json::error_handler_t::replace) +
              '\n');
  }
}

}  // namespace pfc
