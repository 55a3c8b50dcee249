#include "data/job_data.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "common/config/keys/job_keys.h"
#include "common/config/no_network.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "data/combined_dataset.h"
#include "data/layouts/layout.h"
#include "data/layouts/synthetic_dataset.h"
#include "data/open_dataset.h"
#include "data/reading/read_options.h"
#include "data/staging.h"

namespace pfc {

namespace {

void expect_number(const char* key, std::int64_t given, std::int64_t found, const char* of_what,
                   const JobConfig& job) {
  if (given == 0 || given == found) return;
  throw InputError(fmt::format("{0}: found {1} {2}, but {3} is {4}: correct or remove {3}",
                               text_of(job.rec), found, of_what, key, given));
}

/// Returns the options of one data set without numbers.
DatasetOptions options_of(const JobConfig& job, std::size_t set, const Doing& doing) {
  return {.rec = set < job.rec.size() ? job.rec[set] : std::filesystem::path(),
          .overlay = set < job.overlay.size() ? job.overlay[set] : std::filesystem::path(),
          .image_size = job.image_size,
          .doing = doing};
}

/// Sets the options for the head of one data set.
void take_head_classes(const JobConfig& job, std::size_t set, DatasetOptions& options) {
  if (set >= job.head_classes.size()) return;
  options.num_classes = job.head_classes[set];
  options.classes_key = fmt::format("entry {} of head_classes", set + 1);
}

std::unique_ptr<Dataset> open_several(const JobConfig& job, const Doing& doing) {
  std::vector<PartDataset> parts;
  for (std::size_t i = 0; i < job.rec.size(); ++i) {
    DatasetOptions options = options_of(job, i, doing);
    if (job.rec.size() == 1) {  // with a single set, the job's values apply to it
      options.num_classes = job.num_classes;
      options.num_image = job.num_image;
    }
    take_head_classes(job, i, options);
    if (job.rec.size() > 1 && options.rec == kSyntheticData) {
      throw InputError("rec: \"synthetic\" cannot be one of several data sets; give it alone");
    }
    PartDataset part{.dataset = open_dataset(options), .names = {}};
    if (i < job.identities.size() && !job.identities[i].empty()) {
      part.names = read_identity_names(job.identities[i], part.dataset->info().classes);
      if (part.names.size() == 0) {
        throw InputError("identities: " + job.identities[i].string() + ": not found");
      }
    }
    parts.push_back(std::move(part));
  }
  auto dataset = combine_datasets(
      std::move(parts), job.share_identities ? SharedIdentities::kByName : SharedIdentities::kNone);
  expect_number("num_classes", job.num_classes, dataset->info().classes, "classes", job);
  expect_number("num_image", job.num_image, dataset->info().images, "images", job);
  return dataset;
}

/// Checks that the samples match the network: images need one, embeddings need "none".
void check_samples(const JobConfig& job, const DatasetInfo& info) {
  const bool without = job.network == kNoNetwork;
  if (without && info.embedding_size == 0) {
    throw InputError(fmt::format(
        "network: found \"none\", which trains on embeddings, but {} has images ({}): set network "
        "to a backbone, for example \"r50\"",
        text_of(job.rec), info.layout));
  }
  if (!without && info.embedding_size > 0) {
    throw InputError(fmt::format(
        "network: found \"{}\", which embeds images, but {} has {}: set network to \"none\", or "
        "set rec to data with images",
        job.network, text_of(job.rec), info.layout));
  }
  if (!without) return;
  const bool linear = job.feature_size != 0;
  expect_number(linear ? "feature_size" : "embedding_size",
                linear ? job.feature_size : job.embedding_size, info.embedding_size,
                "numbers in each embedding", job);
}

std::unique_ptr<Dataset> open_any(const JobConfig& job, const Doing& doing) {
  const bool named = std::ranges::any_of(job.identities, [](const auto& p) { return !p.empty(); });
  if (job.rec.size() > 1 || named) return open_several(job, doing);
  DatasetOptions options = options_of(job, 0, doing);
  options.num_classes = job.num_classes;
  options.num_image = job.num_image;
  if (job.num_classes == 0) take_head_classes(job, 0, options);
  return open_dataset(options);
}

}  // namespace

std::unique_ptr<Dataset> open_job_data(const JobConfig& job, const Doing& doing) {
  auto dataset = open_any(job, doing);
  if (job.read == ReadKind::kSequential) check_sequential(*dataset);
  return dataset;
}

void complete_job(JobConfig& job, const DatasetInfo& info) {
  check_samples(job, info);
  if (info.embedding_size > 0 && job.feature_size == 0) job.embedding_size = info.embedding_size;
  job.num_classes = info.classes;
  job.num_image = info.images;
  expect_number("labels_per_image", job.labels_per_image, info.labels_per_image,
                "labels for one image at most", job);
  if (static_cast<double>(info.labels_per_image) > keys::kLabels.high) {
    throw InputError(
        fmt::format("{}: found {} labels for an image, expected at most {}: leave out "
                    "the image or some of its labels",
                    text_of(job.rec), info.labels_per_image, keys::kLabels.high));
  }
  job.labels_per_image = info.labels_per_image;
  if (job.heads == Heads::kSeparate) {
    job.head_classes = info.part_classes.empty() ? std::vector{info.classes} : info.part_classes;
  }
}

std::unique_ptr<Dataset> open_job_data_and_complete(JobConfig& job, const Doing& doing) {
  auto dataset = open_job_data(job, doing);
  complete_job(job, dataset->info());
  return dataset;
}

std::vector<std::filesystem::path> stage_job_data(const JobConfig& job, const Doing& doing) {
  std::vector<std::filesystem::path> staged = job.rec;
  if (job.stage.empty()) return staged;
  for (std::filesystem::path& rec : staged) {
    if (rec != kSyntheticData) rec = stage_dataset(rec, job.stage, doing);
  }
  return staged;
}

bool has_data_here(const JobConfig& job) {
  return !job.rec.empty() && std::ranges::all_of(job.rec, [](const std::filesystem::path& rec) {
    return rec == kSyntheticData || something_at(rec) || something_at(expand_braces(rec).front());
  });
}

}  // namespace pfc
