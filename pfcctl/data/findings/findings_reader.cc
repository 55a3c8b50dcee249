#include "pfcctl/data/findings/findings_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
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

// A finding of two people names each image of the second person.
constexpr JsonLimits kFindingLimits{.bytes = std::size_t{64} << 20, .depth = 4};

struct KindOfFinding {
  FindingKind kind;
  std::string_view action;
  std::vector<std::string_view> items;  ///< keys that it needs besides `identity`
};
const std::array<KindOfFinding, 7>& kinds_of_findings() {
  using enum FindingKind;
  static const std::array<KindOfFinding, 7> kinds{
      {{kWrongLabel, "move", {"image", "other_identity"}},
       {kWrongLabel, "drop", {"image", "other_identity"}},
       {kStranger, "drop", {"image"}},
       {kSamePerson, "merge", {"other_identity"}},
       {kTwoPeople, "split", {"images"}},
       {kDuplicate, "drop", {"image", "other_image", "other_identity"}},
       {kLeaked, "drop", {"other_identity"}}}};
  return kinds;
}

/// Reads one line. Borrows its arguments.
class FindingReader {
 public:
  FindingReader(const json& values, std::string origin, const SetsOfFindings& sets)
      : values_(values), origin_(std::move(origin)), sets_(sets) {
    expect_object(values_, origin_);
  }

  [[nodiscard]] ReadFinding read() const {
    const KindOfFinding& known = kind();
    const auto has = [&](std::string_view item) {
      return std::ranges::find(known.items, item) != known.items.end();
    };
    Finding f{.kind = known.kind, .identity = identity("identity", false)};
    if (has("image")) f.image = image(member("image"), "image", f.identity);
    if (has("other_identity")) {
      const bool changes = known.action == "move" || known.action == "merge";
      f.other_identity = identity("other_identity", !changes);
    }
    if (has("other_image")) f.other_image = kept_image(f);
    if (has("images")) {
      const json& images = member("images");
      if (!images.is_array() || images.empty()) fail("images", images, "a non-empty array");
      for (const json& each : images) f.images.push_back(image(each, "images", f.identity));
    }
    f.confidence = confidence();
    expect_evidence();
    return {.finding = std::move(f),
            .action = std::string(known.action),
            .accepted = decision(),
            .text = {}};
  }

 private:
  [[noreturn]] void fail(const std::string& key, const json& found,
                         std::string_view expected) const {
    throw InputError(
        fmt::format("{}: {}: found {}, expected {}", origin_, key, shown(found), expected));
  }

  static void expect_object(const json& value, const std::string& origin) {
    if (value.is_object()) return;
    throw InputError(origin + ": found " + shown(value) + ", expected an object");
  }

  [[nodiscard]] const json& member(const char* key) const {
    static const json none;
    const auto found = values_.find(key);
    return found == values_.end() ? none : *found;
  }

  [[nodiscard]] const KindOfFinding& kind() const {
    std::string kind, action;
    const JsonReader reader(values_, origin_);
    reader.text("kind", kind);
    reader.text("action", action);
    const auto* const found =
        std::ranges::find_if(kinds_of_findings(), [&](const KindOfFinding& known) {
          return kFindingNames[static_cast<std::size_t>(known.kind)] == kind &&
                 known.action == action;
        });
    if (found != kinds_of_findings().end()) return *found;
    throw InputError(fmt::format(
        "{}: found kind {} with action {}, expected a kind and an action of pfcctl data clean",
        origin_, brief(member("kind")), brief(member("action"))));
  }

  [[nodiscard]] std::optional<bool> decision() const {
    constexpr Names<bool, 2> kDecisions{{{"accept", true}, {"reject", false}}};
    std::optional<bool> accepted;
    JsonReader(values_, origin_).choice("decision", accepted, kDecisions);
    return accepted;
  }

  [[nodiscard]] double confidence() const {
    constexpr NumberRange kRange{.low = 0, .high = 1, .high_open = false, .text = "0 .. 1"};
    double confidence = -1;
    const JsonReader reader(values_, origin_);
    reader.number("confidence", confidence, kRange);
    if (confidence < 0) reader.fail("confidence", member("confidence"), kRange.text);
    return confidence;
  }

  void expect_evidence() const {
    const json& evidence = member("evidence");
    if (evidence.is_null()) return;
    expect_object(evidence, origin_ + ": evidence");
    for (const auto& [name, value] : evidence.items()) {
      if (!value.is_number()) fail("evidence: " + one_line(name), value, "a number");
    }
  }

  /// The row or label of an object {NUMBER: I, "name": ..., "test": true}.
  struct Item {
    std::int64_t number = 0;
    bool test = false;
    std::string name;  ///< empty if the finding has none
  };
  [[nodiscard]] Item item(const json& object, const std::string& key, const char* number,
                          bool may_be_test) const {
    const std::string origin = origin_ + ": " + key;
    expect_object(object, origin);
    Item read;
    const JsonReader reader(object, origin);
    reader.flag("test", read.test);
    if (read.test && !may_be_test) {
      throw InputError(
          origin +
          ": found \"test\": true, expected one of the data set; the test set never changes");
    }
    reader.text("name", read.name);
    const Dataset* dataset = set_of(read).dataset.get();
    const bool is_image = std::string_view(number) == "row";
    const std::int64_t count = dataset == nullptr ? std::numeric_limits<std::int32_t>::max()
                               : is_image         ? dataset->info().images
                                                  : dataset->info().classes;
    read.number = required_integer(object, number, 0, count - 1, origin);
    return read;
  }

  [[nodiscard]] const SetOfFindings& set_of(const Item& item) const {
    return item.test ? sets_.test : sets_.cleaned;
  }

  /// Throws InputError: a data set that is given is not the one of the findings.
  [[noreturn]] void fail(const Item& item, const char* number, const std::string& found,
                         const std::string& expected) const {
    throw InputError(fmt::format("{}: {} {}{}: found {}, expected {}; give {}", origin_, number,
                                 item.number, item.test ? " of the test set" : "", found, expected,
                                 item.test ? "--against the test set that was compared"
                                           : "--in the data set that was embedded"));
  }

  [[nodiscard]] std::int64_t identity(const char* key, bool may_be_test) const {
    const Item read = item(member(key), key, "label", may_be_test);
    if (const Dataset* dataset = set_of(read).dataset.get()) {
      const std::string own = one_line(dataset->identity(read.number));
      const bool same = read.name.empty() || own.empty() || own == one_line(read.name);
      if (!same) fail(read, "label", "the identity '" + own + "'", quoted(read.name));
    }
    return read.number + (read.test ? sets_.first_test_identity() : 0);
  }

  /// `identity`: the label of the image, numbered as in SetsOfFindings.
  [[nodiscard]] std::int64_t image(const json& object, const std::string& key,
                                   std::int64_t identity) const {
    const bool test = identity >= sets_.first_test_identity();
    const Item read = item(object, key, "row", key == "other_image");
    if (read.test != test) {
      fail(key, object, test ? "an image of the test set" : "an image of the data set");
    }
    const SetOfFindings& set = set_of(read);
    if (set.dataset) {
      const std::string own = one_line(set.dataset->name(read.number));
      if (!read.name.empty() && !has_name(*set.dataset, set.path, read.number, read.name)) {
        fail(read, "row", "the image '" + own + "'", quoted(read.name));
      }
      const std::int64_t label = set.labels[static_cast<std::size_t>(read.number)];
      const std::int64_t expected = identity - (test ? sets_.first_test_identity() : 0);
      if (label >= 0 && label != expected) {
        fail(read, "row", fmt::format("label {} ({})", label, own), std::to_string(expected));
      }
    }
    return read.number + (test ? sets_.first_test_image() : 0);
  }

  /// Returns the image that stays when its duplicate is dropped.
  [[nodiscard]] std::int64_t kept_image(const Finding& f) const {
    const std::int64_t kept = image(member("other_image"), "other_image", f.other_identity);
    if (kept != f.image) return kept;
    throw InputError(
        fmt::format("{}: found image and other_image {}, expected different rows", origin_, kept));
  }

  static std::string quoted(const std::string& name) { return "'" + one_line(name) + "'"; }

  const json& values_;
  const std::string origin_;
  const SetsOfFindings& sets_;
};

}  // namespace

void read_findings(const std::filesystem::path& file, const SetsOfFindings& sets,
                   const std::function<void(ReadFinding)>& take) {
  const auto take_line = [&](std::string_view line, std::int64_t number) {
    if (line.empty()) return;
    const std::string origin = fmt::format("{}: line {}", file.string(), number);
    const json values = parse_strict_json(line, origin, kFindingLimits);
    ReadFinding read = FindingReader(values, origin, sets).read();
    read.text = line;
    if (values.contains("decision")) {
      auto undecided = nlohmann::ordered_json::parse(line);
      undecided.erase("decision");
      read.text = undecided.dump();
    }
    take(std::move(read));
  };
  read_lines(file, end_at_interrupt, take_line, kFindingLimits.bytes);
}

}  // namespace pfc
