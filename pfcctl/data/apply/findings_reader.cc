#include "pfcctl/data/apply/findings_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "common/config/json_reader.h"
#include "common/config/strict_json.h"
#include "common/error.h"
#include "common/one_line.h"
#include "data/text_lines.h"
#include "pfcctl/data/clean/findings_file.h"
#include "pfcctl/data/progress.h"

namespace pfc {

namespace {

using nlohmann::json;

constexpr std::size_t kLongestFinding = 64 << 20;  // bytes; a split names many images

struct KindOfFinding {
  std::string_view kind, action;
  CorrectionKind correction;
};
constexpr std::array kKindsOfFindings = {
    KindOfFinding{"wrong_label", "move", CorrectionKind::kMove},
    KindOfFinding{"wrong_label", "drop", CorrectionKind::kDrop},
    KindOfFinding{"stranger", "drop", CorrectionKind::kDrop},
    KindOfFinding{"same_person", "merge", CorrectionKind::kMerge},
    KindOfFinding{"two_people", "split", CorrectionKind::kSplit},
    KindOfFinding{"duplicate", "drop", CorrectionKind::kDropDuplicate},
    KindOfFinding{"leaked", "drop", CorrectionKind::kDropIdentity}};

/// Reads one line. Borrows its arguments.
class FindingReader {
 public:
  FindingReader(const json& finding, std::string origin, const Dataset& dataset,
                const std::filesystem::path& in, std::span<const std::int64_t> labels)
      : finding_(finding), origin_(std::move(origin)), dataset_(dataset), in_(in), labels_(labels) {
    if (finding.is_object()) return;
    throw InputError(origin_ + ": found " + shown(finding) + ", expected an object");
  }

  [[nodiscard]] Correction correction() const {
    using enum CorrectionKind;
    Correction c{.kind = kind(), .identity = identity("identity")};
    if (c.kind == kMove || c.kind == kDrop || c.kind == kDropDuplicate) {
      c.image = own_image(member("image"), c.identity);
    }
    if (c.kind == kMove || c.kind == kMerge) c.other_identity = identity("other_identity");
    if (c.kind == kDropDuplicate) c.other_image = kept_image(c.image);
    if (c.kind == kSplit) {
      const json& images = member("images");
      if (!images.is_array() || images.empty()) {
        throw InputError(origin_ + ": images: found " + shown(images) +
                         ", expected a filled array");
      }
      for (const json& each : images) c.images.push_back(own_image(each, c.identity));
    }
    return c;
  }

  /// Returns std::nullopt if the line has no decision.
  [[nodiscard]] std::optional<bool> decision() const {
    constexpr Names<bool, 2> kDecisions{{{"accept", true}, {"reject", false}}};
    std::optional<bool> accepted;
    JsonReader(finding_, origin_).choice("decision", accepted, kDecisions);
    return accepted;
  }
  [[nodiscard]] double confidence() const {
    constexpr NumberRange kRange{.low = 0, .high = 1, .high_open = false, .text = "0 .. 1"};
    double confidence = -1;
    const JsonReader reader(finding_, origin_);
    reader.number("confidence", confidence, kRange);
    if (confidence < 0) reader.fail("confidence", member("confidence"), kRange.text);
    return confidence;
  }

 private:
  [[nodiscard]] const json& member(const char* key) const {
    static const json none;
    const auto found = finding_.find(key);
    return found == finding_.end() ? none : *found;
  }

  [[nodiscard]] CorrectionKind kind() const {
    std::string kind, action;
    const JsonReader reader(finding_, origin_);
    reader.text("kind", kind);
    reader.text("action", action);
    const auto found = std::ranges::find_if(kKindsOfFindings, [&](const KindOfFinding& known) {
      return known.kind == kind && known.action == action;
    });
    if (found != kKindsOfFindings.end()) return found->correction;
    throw InputError(fmt::format(
        "{}: found kind {} with action {}, expected those of a finding of pfcctl data clean",
        origin_, brief(member("kind")), brief(member("action"))));
  }

  /// Returns the number in an object {NUMBER: I, "name": ..., "test": true}; -1 for the test set.
  [[nodiscard]] std::int64_t number_in(const json& object, const std::string& key,
                                       const char* number, std::int64_t count,
                                       bool may_be_test) const {
    const std::string origin = origin_ + ": " + key;
    if (!object.is_object()) {
      throw InputError(origin + ": found " + shown(object) + ", expected an object");
    }
    bool test = false;
    JsonReader(object, origin).flag("test", test);
    if (!test) return required_integer(object, number, 0, count - 1, origin);
    if (may_be_test) return -1;
    throw InputError(origin + ": found one of the test set, which never changes");
  }

  [[nodiscard]] std::int64_t identity(const char* key) const {
    const json& object = member(key);
    const std::int64_t label = number_in(object, key, "label", dataset_.info().classes, false);
    std::string name;
    JsonReader(object, origin_).text("name", name);
    const std::string own = dataset_.identity(label);
    if (name.empty() || own.empty() || one_line(own) == one_line(name)) return label;
    throw InputError(
        fmt::format("{}: label {}: found the identity '{}', expected '{}'; give --in the data set "
                    "that was embedded",
                    origin_, label, one_line(own), one_line(name)));
  }

  [[nodiscard]] std::int64_t image(const json& object, const std::string& key,
                                   bool may_be_test) const {
    const std::int64_t row = number_in(object, key, "row", std::ssize(labels_), may_be_test);
    std::string name;
    JsonReader(object, origin_).text("name", name);
    if (row < 0 || name.empty()) return row;
    if (has_name(dataset_, in_, row, name)) return row;
    throw InputError(
        fmt::format("{}: row {}: found the image '{}', expected '{}'; give --in the data set that "
                    "was embedded",
                    origin_, row, one_line(dataset_.name(row)), one_line(name)));
  }

  /// Returns the number of the image that stays when its duplicate is dropped; -1 for the test set.
  [[nodiscard]] std::int64_t kept_image(std::int64_t dropped) const {
    const std::int64_t kept = image(member("other_image"), "other_image", true);
    if (kept < 0) return kept;
    if (kept == dropped) {
      throw InputError(fmt::format("{}: found image and other_image {}, expected different rows",
                                   origin_, kept));
    }
    return own_image(member("other_image"), identity("other_identity"));
  }

  /// Returns the number of an image of the identity.
  [[nodiscard]] std::int64_t own_image(const json& object, std::int64_t identity) const {
    const std::int64_t row = image(object, "image", false);
    const std::int64_t label = labels_[static_cast<std::size_t>(row)];
    if (label == identity) return row;
    throw InputError(
        fmt::format("{}: row {}: found label {} ({}), expected {}; give --in the data set that was "
                    "embedded",
                    origin_, row, label, dataset_.name(row), identity));
  }

  const json& finding_;
  const std::string origin_;
  const Dataset& dataset_;
  const std::filesystem::path& in_;
  const std::span<const std::int64_t> labels_;
};

}  // namespace

SelectedFindings read_findings(const std::filesystem::path& file, const Dataset& dataset,
                               const std::filesystem::path& in,
                               std::span<const std::int64_t> labels,
                               std::optional<double> min_confidence) {
  SelectedFindings selected;
  const auto take = [&](std::string_view line, std::int64_t number) {
    const std::string origin = fmt::format("{}: line {}", file.string(), number);
    const json finding = parse_strict_json(line, origin, {.bytes = kLongestFinding});
    const FindingReader reader(finding, origin, dataset, in, labels);
    Correction correction = reader.correction();
    const std::optional<bool> accepted = reader.decision();
    const bool certain = !accepted && min_confidence && reader.confidence() >= *min_confidence;
    std::int64_t& lines = certain     ? selected.certain
                          : !accepted ? selected.uncertain
                          : *accepted ? selected.accepted
                                      : selected.rejected;
    ++lines;
    if (accepted.value_or(certain)) selected.corrections.push_back(std::move(correction));
  };
  read_lines(file, end_at_interrupt, take, kLongestFinding);
  return selected;
}

}  // namespace pfc
