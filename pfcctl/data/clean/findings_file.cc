#include "pfcctl/data/clean/findings_file.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "data/text_lines.h"
#include "pfcctl/data/progress.h"

namespace pfc {

namespace {

using json = nlohmann::ordered_json;

/// The names of some images.
class ImageNames {
 public:
  ImageNames(const std::vector<Finding>& findings, const NamedEmbeddings& of) : of_(of) {
    for (const Finding& f : findings) {
      for (const std::int64_t image : f.images) names_[image];
      if (f.image >= 0) names_[f.image];
      if (f.other_image >= 0) names_[f.other_image];
    }
    std::int64_t first = 0;
    for (const std::filesystem::path& file : of.files) {
      const std::int64_t end =
          &file == &of.files.back() ? of.dataset.info().images : of.first_test_image;
      read(path_of_names(file), first, end);
      first = end;
    }
  }

  [[nodiscard]] json image(std::int64_t image) const {
    const bool test = image >= of_.first_test_image;
    json told{{"row", test ? image - of_.first_test_image : image}};
    if (const std::string& name = names_.at(image); !name.empty()) told["name"] = name;
    if (test) told["test"] = true;
    return told;
  }
  [[nodiscard]] json identity(std::int64_t label) const {
    const bool test = label >= of_.first_test_identity;
    json told{{"label", test ? label - of_.first_test_identity : label}};
    if (const std::string name = of_.dataset.identity(label); !name.empty()) told["name"] = name;
    if (test) told["test"] = true;
    return told;
  }

 private:
  void read(const std::filesystem::path& file, std::int64_t first, std::int64_t end) {
    if (!something_at(file)) return;
    std::int64_t lines = 0;
    auto next = names_.lower_bound(first);
    read_lines(file, end_at_interrupt, [&](std::string_view line, std::int64_t number) {
      lines = number;
      if (next == names_.end() || next->first != first + number - 1) return;
      next->second = line;
      ++next;
    });
    if (lines == end - first) return;
    throw InputError(
        fmt::format("{}: found {} lines, expected {}, one for each embedding; write "
                    "it again with pfcctl embed, or move it away",
                    file.string(), lines, end - first));
  }

  const NamedEmbeddings& of_;
  std::map<std::int64_t, std::string> names_;  // by image
};

const char* action_of(const Finding& f, const NamedEmbeddings& of) {
  switch (f.kind) {
    case FindingKind::kWrongLabel:
      return f.other_identity >= of.first_test_identity ? "drop" : "move";
    case FindingKind::kSamePerson:
      return "merge";
    case FindingKind::kTwoPeople:
      return "split";
    case FindingKind::kStranger:
    case FindingKind::kDuplicate:
    case FindingKind::kLeaked:
      return "drop";
  }
  return "";
}

json json_of(const Finding& f, const NamedEmbeddings& of, const ImageNames& names) {
  json told{{"kind", name_of(f.kind)},
            {"action", action_of(f, of)},
            {"confidence", f.confidence},
            {"score", f.score}};
  if (f.image >= 0) told["image"] = names.image(f.image);
  told["identity"] = names.identity(f.identity);
  if (f.other_image >= 0) told["other_image"] = names.image(f.other_image);
  if (f.other_identity >= 0) told["other_identity"] = names.identity(f.other_identity);
  for (const std::int64_t image : f.images) told["images"].push_back(names.image(image));
  for (const auto& [name, value] : f.evidence) {
    const bool whole = std::floor(value) == value;  // a number of images
    told["evidence"][name] = whole ? json(static_cast<std::int64_t>(value)) : json(value);
  }
  return told;
}

}  // namespace

std::filesystem::path path_of_names(std::filesystem::path embeddings) {
  return embeddings.replace_extension(".names.txt");
}

const char* name_of(FindingKind kind) {
  switch (kind) {
    case FindingKind::kWrongLabel:
      return "wrong_label";
    case FindingKind::kStranger:
      return "stranger";
    case FindingKind::kSamePerson:
      return "same_person";
    case FindingKind::kTwoPeople:
      return "two_people";
    case FindingKind::kDuplicate:
      return "duplicate";
    case FindingKind::kLeaked:
      return "leaked";
  }
  return "";
}

void write_findings(BufferedFile& out, const std::vector<Finding>& findings,
                    const NamedEmbeddings& of) {
  const ImageNames names(findings, of);
  for (const Finding& f : findings) {
    out.write(json_of(f, of, names).dump(-1, ' ', false, json::error_handler_t::replace) + '\n');
  }
}

}  // namespace pfc
