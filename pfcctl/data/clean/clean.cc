#include "pfcctl/data/clean/clean.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "common/counted.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/ordered_work.h"
#include "data/combined_dataset.h"
#include "data/damaged_image.h"
#include "data/open_dataset.h"
#include "pfcctl/data/clean/findings_file.h"
#include "pfcctl/data/embed/embedding_writer.h"
#include "pfcctl/data/pairs/pair_dataset.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/writing.h"
#include "pfcctl/interrupt_guard.h"
#include "worker/head/row_copy.h"

namespace pfc {

namespace {

constexpr std::uint64_t kSeed = 1;  // of the planted errors

/// Opens both sets. Throws InputError if one of them cannot be cleaned, or has the output's file.
OpenedEmbeddings opened(const CleanOptions& o) {
  OpenedEmbeddings sets;
  std::vector<PartDataset> parts;
  for (const std::filesystem::path& path : {o.embeddings, o.against}) {
    if (path.empty()) continue;
    auto dataset = open_dataset({.rec = path, .doing = end_at_interrupt});
    if (dataset->info().embedding_size == 0) {
      throw InputError(path.string() + ": found images (" + dataset->info().layout +
                       "), expected embeddings; give --model, or compute them with pfcctl embed");
    }
    if (dataset->info().classes / 10 > dataset->info().images) {
      throw InputError(path.string() + ": found labels up to " +
                       std::to_string(dataset->info().classes - 1) + " for " +
                       std::to_string(dataset->info().images) +
                       " embeddings; number the identities from 0, without gaps");
    }
    const std::filesystem::path file = dataset->briefs().front().file;
    const auto beside = [&](const char* name) { return file.parent_path() / name; };
    expect_not_an_input(o.output, std::array{file, path_of_names(file), beside("labels.npy"),
                                             beside("identities.txt")});
    if (parts.empty()) {
      sets.first_test_image = dataset->info().images;
      sets.first_test_identity = dataset->info().classes;
    }
    expect_names(path_of_names(file), dataset->info().images);
    sets.files.push_back(file);
    parts.push_back({.dataset = std::move(dataset), .names = {}});
  }
  sets.dataset = combine_datasets(std::move(parts), SharedIdentities::kNone);
  return sets;
}

/// Throws InputError unless these are the images of embeddings [first, first + rows).
void expect_same_images(const Dataset& images, const std::filesystem::path& in,
                        const OpenedEmbeddings& sets, std::int64_t first, std::int64_t rows) {
  if (images.info().images != rows) {
    throw InputError(
        fmt::format("{}: found {}, expected {}, one for each embedding; give the data "
                    "set that was embedded",
                    in.string(), counted(images.info().images, "image"), rows));
  }
  const std::int64_t first_label = first == 0 ? 0 : sets.first_test_identity;
  const std::vector<std::int64_t> labels = labels_of(images);
  ImageBuffer buffer;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t own = labels[static_cast<std::size_t>(i)];
    const std::int64_t expected = sets.dataset->label(first + i, buffer) - first_label;
    if (own < 0 || own == expected) continue;
    throw InputError(
        fmt::format("{}: found label {}, expected {} as in row {} of the embeddings; "
                    "give the data set that was embedded",
                    images.name(i), own, expected, i));
  }
}

/// Returns the images of the embeddings, in the same order; nullptr if they are not given.
std::unique_ptr<Dataset> opened_images(const CleanOptions& o, const OpenedEmbeddings& sets) {
  std::vector<PartDataset> parts;
  std::int64_t first = 0, end = sets.first_test_image;
  for (const std::filesystem::path& path : {o.in, o.against_in}) {
    if (path.empty()) break;
    auto images = open_pairs_or_dataset({.rec = path, .doing = end_at_interrupt});
    expect_labelled_images(*images, "clean");
    expect_not_an_input(o.output, std::array{path});
    expect_same_images(*images, path, sets, first, end - first);
    parts.push_back({.dataset = std::move(images), .names = {}});
    first = std::exchange(end, sets.dataset->info().images);
  }
  if (parts.empty()) return nullptr;
  return combine_datasets(std::move(parts), SharedIdentities::kNone);
}

/// Reads each embedding once: computes the mean, and leaves out those that are zero or not finite.
ImageLabels labels_of_readable(const OpenedEmbeddings& sets, int threads) {
  constexpr std::int64_t kTogether = 1024;
  const DatasetInfo& info = sets.dataset->info();
  const auto d = static_cast<std::size_t>(info.embedding_size);
  ImageLabels labels;
  for (std::int64_t i = 0; i < info.classes; ++i) {
    labels.is_test.push_back(i >= sets.first_test_identity);
  }
  struct Block {
    std::vector<std::int64_t> labels;
    std::vector<double> sum;  ///< [D], without the test set
    double count = 0;
  };
  std::vector<double> sum(d);
  double count = 0;
  Progress progress("reading", "embeddings");
  ordered_work<Block>(
      (info.images + kTogether - 1) / kTogether, threads,
      [&](std::int64_t block) {
        Block some{.labels = {}, .sum = std::vector<double>(d)};
        ImageBuffer buffer;
        std::vector<float> row(d);
        for (auto i = block * kTogether; i < std::min(info.images, (block + 1) * kTogether); ++i) {
          try {
            const Sample sample = sets.dataset->read(i, buffer);
            some.labels.push_back(sample.label);
            std::memcpy(row.data(), sample.encoded.data(), d * sizeof(float));
          } catch (const DamagedImage&) {
            some.labels.push_back(-1);
            continue;
          }
          if (i >= sets.first_test_image || !normalise(row)) continue;
          for (std::size_t k = 0; k < d; ++k) some.sum[k] += row[k];
          ++some.count;
        }
        return some;
      },
      [&](std::int64_t, const Block& some) {
        labels.of_image.insert(labels.of_image.end(), some.labels.begin(), some.labels.end());
        for (std::size_t k = 0; k < d; ++k) sum[k] += some.sum[k];
        count += some.count;
        progress.show(labels.images(), info.images);
      });
  for (const double x : sum) {
    labels.mean.push_back(static_cast<float>(x / std::max(count, 1.0)));
  }
  return labels;
}

/// Throws InputError that names the file.
CleaningThresholds thresholds_of(const Dataset& dataset, const ImageLabels& labels,
                                 const CleanOptions& o) {
  try {
    CleaningThresholds t = image_thresholds(LabelledEmbeddings(dataset, labels), o.threads);
    if (!o.in.empty()) t.duplicate = kLeastDuplicate;
    return t;
  } catch (const InputError& e) {
    throw InputError((o.in.empty() ? o.embeddings : o.in).string() + ": " + e.what());
  }
}

/// Returns the number of images that findings drop or give another label. A merged or leaked
/// identity, and the smaller one of a merged pair, count with all images.
std::int64_t proposed_images(const std::vector<Finding>& findings, const ImageLabels& labels) {
  const IdentityMembers members(labels);
  std::set<std::int64_t> images;
  for (const Finding& f : findings) {
    std::span<const std::int64_t> changed = f.images;
    if (f.kind == FindingKind::kLeaked) changed = members.of(f.identity);
    if (f.kind == FindingKind::kSamePerson) {
      changed = std::ranges::min(members.of(f.identity), members.of(f.other_identity), {},
                                 [](const auto& of) { return of.size(); });
    }
    images.insert(changed.begin(), changed.end());
    if (f.image >= 0) images.insert(f.image);
  }
  return std::ssize(images);
}

PlantedErrors planted_in(const ImageLabels& labels, const FoundErrors& found) {
  const InterruptGuard guard;  // an interrupt removes what was written
  PlantedErrors planted = plant_errors(labels, found, kSeed);
  InterruptGuard::expect_none();
  return planted;
}

}  // namespace

Cleaned clean_labels(const CleanOptions& o) {
  const OpenedEmbeddings sets = opened(o);
  const std::unique_ptr<Dataset> images = opened_images(o, sets);
  const auto thumbnails = images ? std::make_unique<Thumbnails>(*images) : nullptr;
  BufferedFile out(o.output);  // fails now if it cannot be created, and not after hours
  const ImageLabels labels = labels_of_readable(sets, o.threads);
  FoundErrors found =
      find_errors(LabelledEmbeddings(*sets.dataset, labels),
                  thresholds_of(*sets.dataset, labels, o), o.threads, thumbnails.get());
  const PlantedErrors planted = planted_in(labels, found);
  std::vector<Finding> again = find_errors(LabelledEmbeddings(*sets.dataset, planted.labels),
                                           found.thresholds, o.threads, thumbnails.get())
                                   .findings;
  const InterruptGuard guard;  // an interrupt removes what was written
  const std::vector<JudgedFinding> judged = judge(planted, std::move(again));
  set_confidence(found.findings, judged);
  const auto left_out = std::erase_if(
      found.findings, [&](const Finding& f) { return f.confidence < o.min_confidence; });
  std::ranges::stable_sort(found.findings, {}, [](const Finding& f) {
    return std::tuple(-f.confidence, f.kind, -f.score);
  });
  write_findings(out, found.findings, sets);
  InterruptGuard::expect_none();
  out.commit();

  const auto own =
      std::span(labels.of_image).first(static_cast<std::size_t>(sets.first_test_image));
  const std::int64_t proposed = proposed_images(found.findings, labels);
  return {.images = sets.first_test_image,
          .damaged = std::ranges::count(own, -1),
          .thresholds = found.thresholds,
          .findings = std::move(found.findings),
          .proposed = proposed,
          .left_out = static_cast<std::int64_t>(left_out),
          .measured = !planted.errors.empty(),
          .self_test = self_test(planted, judged, o.min_confidence)};
}

}  // namespace pfc
