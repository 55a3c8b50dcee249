#include "pfcctl/data/review/review.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/byte_size.h"
#include "common/clock.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/files/sha256.h"
#include "common/one_line.h"
#include "common/ordered_work.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/images/jpeg_encoder.h"
#include "data/records/writing/buffered_file.h"
#include "pfcctl/data/findings/findings_reader.h"
#include "pfcctl/data/pairs/pair_dataset.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/review/page.h"
#include "pfcctl/data/verbs.h"
#include "pfcctl/data/writing.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;
using nlohmann::ordered_json;

constexpr std::size_t kShownOfIdentity = 4;
constexpr std::int64_t kLongestSide = 224;  // larger images are shrunk; the page shows 112 pixels
constexpr int kShrunkQuality = 85;

SetOfFindings set_of_findings(const fs::path& path) {
  if (path.empty()) return {};
  auto dataset = open_pairs_or_dataset({.rec = path});
  expect_labelled_images(*dataset, "review");
  std::vector<std::int64_t> labels = labels_of(*dataset);
  return {.path = path, .dataset = std::move(dataset), .labels = std::move(labels)};
}

/// Returns the finding's `image` or `images`, which it changes.
std::span<const std::int64_t> suspected_images(const Finding& f) {
  if (f.image >= 0) return {&f.image, 1};
  return f.images;
}

/// The images of the page, in the order of their first use.
class ShownImages {
 public:
  /// `shown`: the number of findings on the page, which are the first ones. Borrows `sets`.
  ShownImages(const SetsOfFindings& sets, std::span<const ReadFinding> findings, std::size_t shown)
      : sets_(sets) {
    std::unordered_set<std::int64_t> suspected;
    for (const ReadFinding& read : findings) {
      for (const std::int64_t image : suspected_images(read.finding)) suspected.insert(image);
    }
    for (const ReadFinding& read : findings.first(shown)) {
      identities_[read.finding.identity];
      identities_[read.finding.other_identity];
    }
    choose_images(sets.cleaned, 0, 0, suspected);
    choose_images(sets.test, sets.first_test_image(), sets.first_test_identity(), suspected);
  }

  /// Returns indices into all() for each item of the finding. The lists of a test set that was not
  /// given are empty.
  ordered_json groups_of(const Finding& f) {
    ordered_json groups;
    const auto add_images = [&](const char* key, std::span<const std::int64_t> images) {
      if (images.empty()) return;
      groups[key] = places_of(images.first(std::min(images.size(), kShownOfIdentity)));
    };
    const auto add_identity = [&](const char* key, std::int64_t identity) {
      if (identity >= 0) groups[key] = places_of(identities_.at(identity));
    };
    add_images(f.image >= 0 ? "image" : "images", suspected_images(f));
    if (f.kind == FindingKind::kDuplicate) {
      add_images("other_image", {&f.other_image, 1});
    } else {
      add_identity("identity", f.identity);
      add_identity("other_identity", f.other_identity);
    }
    return groups;
  }
  [[nodiscard]] const std::vector<std::int64_t>& all() const { return all_; }

 private:
  /// Chooses images of the identities to show. The set's images and identities begin at
  /// `first_image` and `first_identity`.
  void choose_images(const SetOfFindings& set, std::int64_t first_image,
                     std::int64_t first_identity,
                     const std::unordered_set<std::int64_t>& suspected) {
    for (std::int64_t row = 0; row < std::ssize(set.labels); ++row) {
      const std::int64_t label = set.labels[static_cast<std::size_t>(row)];
      const auto of = identities_.find(first_identity + label);
      if (label < 0 || of == identities_.end() || of->second.size() == kShownOfIdentity) continue;
      if (!suspected.contains(first_image + row)) of->second.push_back(first_image + row);
    }
  }

  ordered_json places_of(std::span<const std::int64_t> images) {
    ordered_json places = ordered_json::array();
    for (const std::int64_t image : images) {
      if (image >= sets_.first_test_image() && sets_.test.dataset == nullptr) continue;
      const auto [place, is_new] = places_.emplace(image, all_.size());
      if (is_new) all_.push_back(image);
      places.push_back(place->second);
    }
    return places;
  }

  const SetsOfFindings& sets_;
  /// Images that no finding would change, by identity.
  std::unordered_map<std::int64_t, std::vector<std::int64_t>> identities_;
  std::vector<std::int64_t> all_;
  std::unordered_map<std::int64_t, std::size_t> places_;  // in all_
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
std::int64_t write_images(BufferedFile& out, const SetsOfFindings& sets,
                          const std::vector<std::int64_t>& images, Progress& progress) {
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
          const std::int64_t image = images[static_cast<std::size_t>(i)];
          const bool test = image >= sets.first_test_image();
          const Dataset& dataset = test ? *sets.test.dataset : *sets.cleaned.dataset;
          const std::int64_t row = image - (test ? sets.first_test_image() : 0);
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

std::string_view decision_text(const ReadFinding& f) {
  return !f.accepted ? "" : *f.accepted ? "accept" : "reject";
}

/// The browser keeps decisions under this checksum.
std::string checksum_of(std::span<const ReadFinding> findings) {
  Sha256 sum;
  for (const ReadFinding& f : findings) {
    for (const std::string_view part : {std::string_view(f.text), decision_text(f), "\n"sv}) {
      sum.update(std::as_bytes(std::span(part)));
    }
  }
  return sum.finish();
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
  const SetsOfFindings sets{set_of_findings(o.in), set_of_findings(o.against)};
  std::vector<ReadFinding> findings;
  read_findings(o.findings, sets, [&](ReadFinding read) { findings.push_back(std::move(read)); });

  const auto all = std::ssize(findings), shown = std::min(all, o.limit);
  ShownImages images(sets, findings, static_cast<std::size_t>(shown));
  ordered_json data{{"set", one_line(o.in.string())},
                    {"against", !o.against.empty()},
                    {"sha256", checksum_of(findings)},
                    {"left_out", all - shown},
                    {"findings", ordered_json::array()}};
  for (const ReadFinding& f : std::span(findings).first(static_cast<std::size_t>(shown))) {
    data["findings"].push_back({{"line", f.text},
                                {"decision", decision_text(f)},
                                {"groups", images.groups_of(f.finding)}});
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
