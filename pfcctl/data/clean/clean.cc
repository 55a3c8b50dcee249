#include "pfcctl/data/clean/clean.h"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/ordered_work.h"
#include "data/combined_dataset.h"
#include "data/damaged_image.h"
#include "data/open_dataset.h"
#include "data/records/writing/buffered_file.h"
#include "pfcctl/data/clean/calibration.h"
#include "pfcctl/data/clean/findings_file.h"
#include "pfcctl/data/progress.h"

namespace pfc {

namespace {

std::unique_ptr<Dataset> open_embeddings(const std::filesystem::path& file) {
  auto dataset = open_dataset({.rec = file, .doing = end_at_interrupt});
  if (dataset->info().embedding_size > 0) return dataset;
  throw InputError(file.string() + ": found images (" + dataset->info().layout +
                   "), expected embeddings; compute them with pfcctl embed");
}

/// Returns both sets as one, and the labels of the images whose embeddings are usable.
class OpenedSets {
 public:
  explicit OpenedSets(const CleanOptions& o) {
    std::vector<PartDataset> parts;
    for (const auto& file : {o.embeddings, o.against}) {
      if (file.empty()) continue;
      parts.push_back({.dataset = open_embeddings(file), .names = {}});
      files_.push_back(parts.back().dataset->briefs().front().file);
      if (parts.size() == 1) {
        images_ = parts[0].dataset->info().images;
        identities_ = parts[0].dataset->info().classes;
      }
    }
    dataset_ = combine_datasets(std::move(parts), SharedIdentities::kNone);
    labels_.is_test.resize(static_cast<std::size_t>(dataset_->info().classes));
    std::fill(labels_.is_test.begin() + identities_, labels_.is_test.end(), true);
    read_labels(o.finder);
  }

  [[nodiscard]] const Dataset& dataset() const { return *dataset_; }
  [[nodiscard]] const ImageLabels& labels() const { return labels_; }
  [[nodiscard]] std::int64_t images() const { return images_; }
  [[nodiscard]] std::int64_t identities() const { return identities_; }
  /// Throws InputError if `output` is a file of one of the sets.
  void expect_no_input(const std::filesystem::path& output) const {
    for (const std::filesystem::path& file : files_) {
      const auto beside = [&](const char* name) { return file.parent_path() / name; };
      expect_not_an_input(output, std::array{file, path_of_names(file), beside("labels.npy"),
                                             beside("identities.txt")});
    }
  }
  [[nodiscard]] NamedEmbeddings named() const {
    return {.dataset = *dataset_,
            .first_test_identity = identities_,
            .first_test_image = images_,
            .files = files_};
  }

 private:
  /// Reads each embedding once, to leave out those that are zero or not finite.
  void read_labels(const FinderOptions& o) {
    constexpr std::int64_t kTogether = 1024;
    const std::int64_t images = dataset_->info().images;
    ordered_work<std::vector<std::int64_t>>(
        (images + kTogether - 1) / kTogether, o.threads,
        [&](std::int64_t block) {
          std::vector<std::int64_t> labels;
          ImageBuffer buffer;
          for (auto i = block * kTogether; i < std::min(images, (block + 1) * kTogether); ++i) {
            try {
              labels.push_back(dataset_->read(i, buffer).label);
            } catch (const DamagedImage&) {
              labels.push_back(-1);
            }
          }
          return labels;
        },
        [&](std::int64_t, const std::vector<std::int64_t>& some) {
          labels_.of_image.insert(labels_.of_image.end(), some.begin(), some.end());
          if (o.progress) o.progress("reading", "embeddings", labels_.images(), images);
        });
  }

  std::unique_ptr<Dataset> dataset_;
  ImageLabels labels_;
  std::int64_t images_ = 0, identities_ = 0;  // of the set to clean
  std::vector<std::filesystem::path> files_;
};

FoundErrors find_in(const Dataset& dataset, const ImageLabels& labels, const CleanOptions& o) {
  try {
    return find_errors(LabelledEmbeddings(dataset, labels), o.finder);
  } catch (const InputError& e) {
    throw InputError(o.embeddings.string() + ": " + e.what());
  }
}

/// Returns the number of images that findings drop or give another label. A merged or leaked
/// identity counts with its images; the smaller one of a merged pair.
std::int64_t proposed_images(const std::vector<Finding>& findings, const ImageLabels& labels) {
  const IdentityMembers members(labels);
  std::set<std::int64_t> images;
  for (const Finding& f : findings) {
    images.insert(f.images.begin(), f.images.end());
    if (f.image >= 0) images.insert(f.image);
    std::span<const std::int64_t> of;
    if (f.kind == FindingKind::kLeaked || f.kind == FindingKind::kSamePerson) {
      of = members.of(f.identity);
    }
    if (f.kind == FindingKind::kSamePerson && members.of(f.other_identity).size() < of.size()) {
      of = members.of(f.other_identity);
    }
    images.insert(of.begin(), of.end());
  }
  return std::ssize(images);
}

/// Returns the kind of error that a finding reports.
ErrorKind error_kind(FindingKind kind) {
  switch (kind) {
    case FindingKind::kWrongLabel:
    case FindingKind::kStranger:
      return ErrorKind::kFlipped;
    case FindingKind::kSamePerson:
      return ErrorKind::kSplit;
    case FindingKind::kTwoPeople:
      return ErrorKind::kMerged;
    case FindingKind::kDuplicate:
      return ErrorKind::kCopied;
    case FindingKind::kLeaked:
      return ErrorKind::kLeaked;
  }
  return ErrorKind::kFlipped;
}

SelfTest self_test_of(const PlantedFindings& caused, const Calibration& calibration, double least) {
  const auto confidence = [&](const Finding& f) { return calibration.confidence(f); };
  std::array<double, kErrorKinds> right{}, all{};
  const auto count = [&](const std::vector<Finding>& findings, double is_right) {
    for (const Finding& f : findings) {
      if (confidence(f) < least) continue;
      right[static_cast<std::size_t>(error_kind(f.kind))] += is_right;
      all[static_cast<std::size_t>(error_kind(f.kind))] += 1;
    }
  };
  count(caused.right(), 1);
  count(caused.wrong(), 0);
  SelfTest test{.recalls = caused.recalls(least, confidence)};
  for (std::size_t k = 0; k < kErrorKinds; ++k)
    test.precision[k] = right[k] / std::max(all[k], 1.0);
  return test;
}

}  // namespace

Cleaned clean_labels(const CleanOptions& o) {
  const OpenedSets sets(o);
  sets.expect_no_input(o.output);
  BufferedFile out(o.output);  // fails now if it cannot be created, and not after hours
  const ImageLabels& labels = sets.labels();
  FoundErrors found = find_in(sets.dataset(), labels, o);
  const PlantedErrors planted = plant_errors(labels, found.findings, o.seed);
  const PlantedFindings caused(planted, found.findings,
                               find_in(sets.dataset(), planted.labels, o).findings);
  const Calibration calibration(caused.right(), caused.wrong(), found.findings);
  const SelfTest self_test = self_test_of(
      caused, Calibration(caused.right(), caused.wrong(), caused.right()), o.min_confidence);
  for (Finding& f : found.findings) f.confidence = calibration.confidence(f);
  std::erase_if(found.findings, [&](const Finding& f) { return f.confidence < o.min_confidence; });
  std::ranges::stable_sort(found.findings, {}, [](const Finding& f) {
    return std::tuple(-f.confidence, f.kind, -f.score);
  });
  write_findings(out, found.findings, sets.named());
  out.commit();

  const auto own = std::span(labels.of_image).first(static_cast<std::size_t>(sets.images()));
  Cleaned cleaned{.images = sets.images(),
                  .identities = sets.identities(),
                  .damaged = std::ranges::count(own, -1),
                  .thresholds = found.thresholds,
                  .findings = std::move(found.findings),
                  .self_test = self_test};
  cleaned.proposed = proposed_images(cleaned.findings, labels);
  return cleaned;
}

}  // namespace pfc
