#include "pfcctl/data/review/findings.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>

#include "common/config/strict_json.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/files/sha256.h"
#include "common/one_line.h"

namespace pfc {

namespace {

using nlohmann::json;

// A finding of two people names each image of the second person.
constexpr JsonLimits kFindingLimits{.bytes = std::size_t{64} << 20, .depth = 4};

/// Throws if a key is missing or has a wrong value.
void expect_values(const json& values) {
  static const std::map<std::string, std::vector<const char*>> kNeeded = {
      {"wrong_label", {"image", "other_identity"}},
      {"stranger", {"image"}},
      {"same_person", {"other_identity"}},
      {"two_people", {"images"}},
      {"duplicate", {"image", "other_image", "other_identity"}},
      {"leaked", {"other_identity"}}};
  const auto needed = kNeeded.find(values.at("kind").get<std::string>());
  const auto decision = values.value("decision", std::string("accept"));
  if (needed == kNeeded.end() || (decision != "accept" && decision != "reject")) {
    throw InputError("found unknown kind or decision");
  }
  static_cast<void>(values.at("confidence").get<double>());
  std::vector<const char*> items = needed->second;
  items.push_back("identity");
  for (const char* key : items) {
    const json& value = values.at(key);
    const bool is_list = std::string_view(key) == "images";
    if (value.is_array() != is_list) throw InputError(std::string(key) + " has a wrong type");
    for (const json& item : is_list ? value : json::array({value})) {
      static_cast<void>(key_of(item));
      static_cast<void>(item.value("name", std::string()));
    }
  }
  const json evidence = values.value("evidence", json::object());
  for (const auto& [key, value] : evidence.items()) {
    if (!value.is_number()) throw InputError("evidence: found " + key + " that is not a number");
  }
}

ReviewedFinding finding_in(std::string_view line, const std::string& where) {
  ReviewedFinding f{.where = where,
                    .line = std::string(line),
                    .values = parse_strict_json(line, where, kFindingLimits)};
  try {
    expect_values(f.values);
  } catch (const std::exception& e) {
    throw InputError(where + ": expected a finding of pfcctl data clean; " + one_line(e.what()));
  }
  if (f.values.contains("decision")) {
    auto undecided = nlohmann::ordered_json::parse(line);
    undecided.erase("decision");
    f.line = undecided.dump();
  }
  return f;
}

}  // namespace

ItemKey key_of(const json& item) {
  const auto number = item.contains("row") ? item.find("row") : item.find("label");
  return {item.value("test", false), number == item.end() ? -1 : number->get<std::int64_t>()};
}

std::vector<json> suspected_images(const ReviewedFinding& finding) {
  std::vector<json> images = finding.values.value("images", std::vector<json>());
  if (finding.values.contains("image")) images.push_back(finding.values["image"]);
  return images;
}

FindingsFile findings_to_review(const std::filesystem::path& file) {
  RegularFile opened(file);
  std::string text(opened.bytes(), '\0');
  text.resize(opened.read(std::as_writable_bytes(std::span(text))));
  FindingsFile read{.sha256 = sha256_hex(std::as_bytes(std::span(text))), .findings = {}};
  std::string_view rest = text;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);  // byte order mark
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.empty()) continue;
    read.findings.push_back(finding_in(line, file.string() + ": line " + std::to_string(number)));
  }
  return read;
}

}  // namespace pfc
