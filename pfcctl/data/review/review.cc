#include "pfcctl/data/review/review.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "common/byte_size.h"
#include "common/clock.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"
#include "common/ordered_work.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/images/jpeg_encoder.h"
#include "data/open_dataset.h"
#include "data/records/writing/buffered_file.h"
#include "pfcctl/data/clean/findings_file.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/review/findings.h"
#include "pfcctl/data/review/page.h"
#include "pfcctl/data/verbs.h"
#include "pfcctl/data/writing.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kShownOfIdentity = 4;
constexpr std::int64_t kLongestSide = 224;  // larger images are shrunk; the page shows 112 pixels
constexpr int kShrunkQuality = 85;

struct ReviewedSet {
  fs::path path;
  std::unique_ptr<Dataset> dataset;  ///< nullptr: not given
};
using ReviewedSets = std::array<ReviewedSet, 2>;  // the second one is the test set

ReviewedSet reviewed_set(const fs::path& path) {
  if (path.empty()) return {};
  auto dataset = open_dataset({.rec = path});
  expect_labelled_images(*dataset, "review");
  return {path, std::move(dataset)};
}

/// Throws InputError if an image or identity of the finding is not in its set. `identity`: that of
/// an image; null for an identity.
void expect_item(const ReviewedSets& sets, const ReviewedFinding& f, const json& item,
                 const json& identity) {
  const auto [test, number] = key_of(item);
  const auto& [path, dataset] = sets.at(test ? 1 : 0);
  if (dataset == nullptr) return;
  const auto expect = [&, number = number, &path = path](bool ok, const auto& found,
                                                         const auto& expected) {
    if (ok) return;
    throw InputError(fmt::format(
        "{}: {} {}: found {}, expected {}; {} is not the data set of the findings", f.where,
        identity.is_null() ? "label" : "row", number, found, expected, path.string()));
  };
  const DatasetInfo& info = dataset->info();
  const std::int64_t end = identity.is_null() ? info.classes : info.images;
  expect(number >= 0 && number < end, counted(end, identity.is_null() ? "label" : "row"), "more");
  const std::string told = item.value("name", "");
  if (identity.is_null()) {
    const std::string own = one_line(dataset->identity(number));
    return expect(told.empty() || own.empty() || own == one_line(told), own, one_line(told));
  }
  expect(told.empty() || has_name(*dataset, path, number, told), one_line(dataset->name(number)),
         one_line(told));
  try {
    ImageBuffer buffer;
    const std::int64_t label = dataset->label(number, buffer);
    expect(label == key_of(identity).second, fmt::format("label {}", label),
           key_of(identity).second);
  } catch (const DamagedImage&) {  // NOLINT(bugprone-empty-catch): the page says so
  }
}

void expect_same_sets(const ReviewedSets& sets, const ReviewedFinding& f) {
  const json& values = f.values;
  for (const char* key : {"identity", "other_identity"}) {
    if (values.contains(key)) expect_item(sets, f, values[key], nullptr);
  }
  for (const json& image : suspected_images(f)) expect_item(sets, f, image, values["identity"]);
  if (values.contains("other_image")) {
    expect_item(sets, f, values["other_image"], values["other_identity"]);
  }
}

/// The images of the page, in the order of their first use.
class ShownImages {
 public:
  /// Reads all labels. `shown`: the number of findings on the page, which are the first ones.
  /// Borrows `sets`.
  ShownImages(const ReviewedSets& sets, std::span<const ReviewedFinding> findings,
              std::size_t shown)
      : sets_(sets) {
    std::set<ItemKey> suspected;
    for (const ReviewedFinding& f : findings) {
      for (const json& image : suspected_images(f)) suspected.insert(key_of(image));
    }
    for (const ReviewedFinding& f : findings.first(shown)) {
      for (const char* key : {"identity", "other_identity"}) {
        if (f.values.contains(key)) identities_[key_of(f.values[key])];
      }
    }
    for (const bool test : {false, true}) {
      if (sets.at(test ? 1 : 0).dataset) read_labels(test, suspected);
    }
  }

  /// Returns indices into all() for each key of the finding. The lists of a test set that
  /// was not given are empty.
  ordered_json groups_of(const json& finding) {
    ordered_json groups;
    for (const char* key : {"image", "images", "other_image"}) {
      if (!finding.contains(key)) continue;
      const json& value = finding[key];
      std::vector<ItemKey> images;
      for (const json& image : value.is_array() ? value : json::array({value})) {
        if (images.size() < kShownOfIdentity) images.push_back(key_of(image));
      }
      groups[key] = places_of(images);
    }
    for (const char* key : {"identity", "other_identity"}) {
      if (!finding.contains(key) || finding["kind"] == "duplicate") continue;
      groups[key] = places_of(identities_.at(key_of(finding[key])));
    }
    return groups;
  }
  [[nodiscard]] const std::vector<ItemKey>& all() const { return all_; }

 private:
  void read_labels(bool test, const std::set<ItemKey>& suspected) {
    const Dataset& dataset = *sets_.at(test ? 1 : 0).dataset;
    Progress progress("reading labels", "images");
    ImageBuffer buffer;
    for (std::int64_t i = 0; i < dataset.info().images; ++i) {
      progress.show(i + 1, dataset.info().images);
      try {
        const auto of = identities_.find({test, dataset.label(i, buffer)});
        if (of == identities_.end() || of->second.size() == kShownOfIdentity) continue;
        if (!suspected.contains({test, i})) of->second.emplace_back(test, i);
      } catch (const DamagedImage&) {  // NOLINT(bugprone-empty-catch): it cannot be shown
      }
    }
  }

  ordered_json places_of(std::span<const ItemKey> images) {
    ordered_json places = ordered_json::array();
    for (const ItemKey& image : images) {
      if (sets_.at(image.first ? 1 : 0).dataset == nullptr) continue;
      const auto [place, is_new] = places_.emplace(image, all_.size());
      if (is_new) all_.push_back(image);
      places.push_back(place->second);
    }
    return places;
  }

  const ReviewedSets& sets_;
  std::map<ItemKey, std::vector<ItemKey>> identities_;  // images that no finding would change
  std::vector<ItemKey> all_;
  std::map<ItemKey, std::size_t> places_;  // in all_
};

/// Returns the address of an image that browsers can show.
std::string address_of(ImageDecoder& decoder, std::span<const std::byte> encoded) {
  const ImageSize size = decoder.size(encoded);
  const std::int64_t longest = std::max(size.height, size.width);
  if (longest <= kLongestSide) {
    return data_address(CLI::detail::to_lower(decoder.format(encoded)), encoded);
  }
  const auto shrunk = [&](std::int64_t side) {
    return std::max<std::int64_t>(side * kLongestSide / longest, 1);
  };
  const ImageSize small{.height = shrunk(size.height), .width = shrunk(size.width)};
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(small.height * small.width * 3));
  decoder.decode(encoded, small, rgb);
  return data_address("jpeg", encode_jpeg(rgb, static_cast<int>(small.height),
                                          static_cast<int>(small.width), kShrunkQuality));
}

/// Writes the images, shows progress, and returns the number of those that cannot be read.
std::int64_t write_images(BufferedFile& out, const ReviewedSets& sets,
                          const std::vector<ItemKey>& images, Progress& progress) {
  std::atomic<std::int64_t> unreadable = 0;
  const auto n = std::ssize(images);
  const auto end_of = [&](std::int64_t block) { return std::min(n, (block + 1) * kImagesInBlock); };
  ordered_work<std::string>(
      (n + kImagesInBlock - 1) / kImagesInBlock, 0,
      [&](std::int64_t block) {
        ImageDecoder decoder;
        ImageBuffer buffer;
        ordered_json entries = ordered_json::array();
        for (std::int64_t i = block * kImagesInBlock; i < end_of(block); ++i) {
          const auto [test, row] = images[static_cast<std::size_t>(i)];
          const Dataset& dataset = *sets.at(test ? 1 : 0).dataset;
          const std::string name = one_line(dataset.name(row));
          try {
            entries.push_back({name, address_of(decoder, dataset.read(row, buffer).encoded)});
          } catch (const DamagedImage& e) {
            entries.push_back({name, nullptr, one_line(e.what())});
            ++unreadable;
          }
        }
        return image_block(block, entries);
      },
      [&](std::int64_t block, const std::string& html) {
        out.write(html);
        progress.show(end_of(block), n);
      });
  return unreadable;
}

std::string summary(const ReviewOptions& o, std::int64_t findings, std::int64_t left_out,
                    std::int64_t images, std::int64_t unreadable, std::uint64_t bytes) {
  std::string text =
      fmt::format("{}: {} with {}, {}\n", one_line(o.output.string()), counted(findings, "finding"),
                  counted(images, "image"), byte_size_text(bytes));
  if (left_out > 0) {
    text += fmt::format("{} left out; --limit N shows more\n", counted(left_out, "finding"));
  }
  if (unreadable > 0) text += counted(unreadable, "image") + " cannot be read\n";
  return text;
}

}  // namespace

std::string write_review(const ReviewOptions& o) {
  if (o.output.extension() != ".html") {
    throw InputError("--out " + o.output.string() + ": expected a file name that ends with .html");
  }
  expect_not_an_input(o.output, std::array{o.findings, o.in, o.against});
  const FindingsFile file = findings_to_review(o.findings);
  const ReviewedSets sets{reviewed_set(o.in), reviewed_set(o.against)};
  for (const ReviewedFinding& f : file.findings) expect_same_sets(sets, f);

  const auto all = std::ssize(file.findings), shown = std::min(all, o.limit);
  ShownImages images(sets, file.findings, static_cast<std::size_t>(shown));
  ordered_json data{{"set", one_line(o.in.string())},
                    {"against", !o.against.empty()},
                    {"sha256", file.sha256},
                    {"left_out", all - shown},
                    {"findings", ordered_json::array()}};
  for (const ReviewedFinding& f : std::span(file.findings).first(static_cast<std::size_t>(shown))) {
    data["findings"].push_back({{"line", f.line},
                                {"decision", f.values.value("decision", "")},
                                {"groups", images.groups_of(f.values)}});
  }
  Progress progress("reading", "images");  // an interrupt removes what was written
  BufferedFile out(o.output);
  out.write(page_begin(data));
  const std::int64_t unreadable = write_images(out, sets, images.all(), progress);
  out.write("</body>\n</html>\n");
  const std::uint64_t bytes = out.offset();
  out.commit();
  return summary(o, shown, all - shown, std::ssize(images.all()), unreadable, bytes);
}

void add_data_review(CLI::App& data) {
  const auto o = std::make_shared<ReviewOptions>();  // owned by the verb's callback
  CLI::App* verb = data.add_subcommand(
      "review", "Writes a web page on which a person accepts or rejects findings");
  verb->add_option("--findings", o->findings, "File of pfcctl data clean, or saved decisions")
      ->capture_default_str();
  verb->add_option("--in", o->in, "The data set whose embeddings were cleaned")->required();
  verb->add_option("--against", o->against, "The test set with which it was compared");
  verb->add_option("--out", o->output, "F.html: the page, one file that needs no network")
      ->capture_default_str();
  verb->add_option("--limit", o->limit, "Shows only the first N findings of the file")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->capture_default_str();
  verb->footer(
      "Open the page in a browser, decide, and save decisions.jsonl (docs/cleaning.md). Example:\n"
      "  pfcctl data review --findings findings.jsonl --in /data/faces --out review.html");
  verb->callback([o] { std::fputs(write_review(*o).c_str(), stdout); });
}

}  // namespace pfc
