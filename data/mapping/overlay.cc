#include "data/mapping/overlay.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "common/config/json_reader.h"
#include "common/config/strict_json.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/files/sha256.h"
#include "data/layouts/labels.h"
#include "data/records/writing/buffered_file.h"
#include "data/text_lines.h"

namespace pfc {

namespace {

using nlohmann::json;

constexpr std::int64_t kOverlayVersion = 1;

class OverlayReader {
 public:
  explicit OverlayReader(const std::filesystem::path& file) { overlay_.file = file; }

  void take(std::string_view line, std::int64_t number) {
    line_ = number;
    const json object = parse_strict_json(line, origin(number));
    number == 1 ? take_header(object) : take_change(object);
  }

  Overlay finish() {
    expect_complete();
    expect_final(overlay_.of_identities, 2);
    expect_final(overlay_.of_images, 2 + std::ssize(overlay_.of_identities));
    return std::move(overlay_);
  }

 private:
  [[nodiscard]] std::string origin(std::int64_t line) const {
    return fmt::format("{}: line {}", overlay_.file.string(), line);
  }
  [[nodiscard]] std::int64_t integer(const json& object, const char* key, std::int64_t low,
                                     std::int64_t high) const {
    return required_integer(object, key, low, high, origin(line_));
  }
  [[noreturn]] void fail(const json& found, std::string_view expected) const {
    throw InputError(
        fmt::format("{}: found {}, expected {}", origin(line_), brief(found), expected));
  }

  void take_header(const json& object) {
    if (object.size() != 4 || !object.contains("overlay")) {
      fail(object, R"({"overlay": 1, "images": N, "identities": C, "changes": LINES})");
    }
    (void)integer(object, "overlay", kOverlayVersion, kOverlayVersion);
    overlay_.images = integer(object, "images", 1, kMaxClasses);
    overlay_.identities = integer(object, "identities", 1, kMaxClasses);
    changes_ = integer(object, "changes", 0, kMaxClasses);
  }

  void take_change(const json& object) {
    const bool of_image = object.contains("image");
    const char* const key = of_image ? "image" : "identity";
    if (object.size() != 2 || !object.contains(key) || !object.contains("label")) {
      fail(object, R"({"image": I, "label": L} or {"identity": I, "label": L})");
    }
    if (!of_image && !overlay_.of_images.empty()) fail(object, "identities before all images");
    auto& changes = of_image ? overlay_.of_images : overlay_.of_identities;
    const std::int64_t least = changes.empty() ? 0 : changes.back().of + 1;
    LabelChange change{
        .of = integer(object, key, 0, (of_image ? overlay_.images : overlay_.identities) - 1)};
    if (change.of < least) {
      fail(object, fmt::format("{} numbers in ascending order", key));
    }
    if (!object["label"].is_null()) change.label = integer(object, "label", 0, kMaxClasses - 1);
    changes.push_back(change);
  }

  void expect_complete() const {
    if (line_ == 0) throw InputError(overlay_.file.string() + ": is empty, expected an overlay");
    if (line_ == changes_ + 1) return;
    throw InputError(
        fmt::format("{}: found {}, expected {} (\"changes\" in line 1); make the "
                    "overlay again",
                    overlay_.file.string(), counted(line_ - 1, "change"), changes_));
  }

  /// Rejects changes to an identity that is changed itself. `first`: line of the first change.
  void expect_final(const std::vector<LabelChange>& changes, std::int64_t first) const {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const LabelChange* const next = find_change(overlay_.of_identities, changes[i].label);
      if (next == nullptr) continue;
      throw InputError(fmt::format(
          "{}: found label {}, but line {} changes this identity; expected a label that does not "
          "change",
          origin(first + static_cast<std::int64_t>(i)), changes[i].label,
          2 + (next - overlay_.of_identities.data())));
    }
  }

  Overlay overlay_;
  std::int64_t line_ = 0;     ///< number of the last line
  std::int64_t changes_ = 0;  ///< in the header
};

void write_changes(const char* of, const std::vector<LabelChange>& changes, BufferedFile& out) {
  for (const LabelChange& c : changes) {
    out.write(fmt::format("{{\"{}\": {}, \"label\": {}}}\n", of, c.of,
                          c.label < 0 ? "null" : std::to_string(c.label)));
  }
}

}  // namespace

const LabelChange* find_change(const std::vector<LabelChange>& changes, std::int64_t of) {
  const auto found = std::ranges::lower_bound(changes, of, {}, &LabelChange::of);
  return found != changes.end() && found->of == of ? &*found : nullptr;
}

std::string overlay_checksum(const Overlay& overlay) {
  Sha256 sum;
  const std::int64_t first_image = std::ssize(overlay.of_identities);
  sum.update(std::as_bytes(std::span(&first_image, 1)));
  sum.update(std::as_bytes(std::span(overlay.of_identities)));
  sum.update(std::as_bytes(std::span(overlay.of_images)));
  return sum.finish().substr(0, 16);
}

Overlay read_overlay(const std::filesystem::path& file, const Doing& doing) {
  OverlayReader reader(file);
  read_lines(file, doing,
             [&](std::string_view line, std::int64_t number) { reader.take(line, number); });
  return reader.finish();
}

void write_overlay(const std::filesystem::path& file, const Overlay& overlay) {
  BufferedFile out(file);
  out.write(fmt::format(
      "{{\"overlay\": {}, \"images\": {}, \"identities\": {}, \"changes\": {}}}\n", kOverlayVersion,
      overlay.images, overlay.identities, overlay.of_identities.size() + overlay.of_images.size()));
  write_changes("identity", overlay.of_identities, out);
  write_changes("image", overlay.of_images, out);
  out.commit();
}

}  // namespace pfc
