#include "data/open_dataset.h"

#include <spdlog/fmt/fmt.h>

#include <stdexcept>
#include <string>

#include "common/error.h"
#include "data/layouts/embedding_dataset.h"
#include "data/layouts/file_dataset.h"
#include "data/layouts/layout.h"
#include "data/layouts/lmdb_dataset.h"
#include "data/layouts/synthetic_dataset.h"
#include "data/layouts/tar_dataset.h"
#include "data/mapping/overlay.h"
#include "data/records/record_dataset.h"

namespace pfc {

namespace {

/// Here num_classes and num_image are the numbers that remain.
std::unique_ptr<Dataset> open_with_overlay(const DatasetOptions& options) {
  if (options.rec == kSyntheticData) {
    throw InputError("overlay: found " + options.overlay.string() +
                     ", but the labels of \"synthetic\" cannot change; remove it");
  }
  const DatasetOptions given{
      .rec = options.rec, .image_size = options.image_size, .doing = options.doing};
  auto dataset = overlaid(open_dataset(given), read_overlay(options.overlay, options.doing));
  const auto expect = [&](const std::string& key, std::int64_t expected, std::int64_t found) {
    if (expected == 0 || expected == found) return;
    throw InputError(
        fmt::format("{0}: found {1} with the overlay {2}, but {3} is {4}: correct or "
                    "remove {3}",
                    options.rec.string(), found, options.overlay.string(), key, expected));
  };
  expect(options.classes_key, options.num_classes, dataset->info().classes);
  expect("num_image", options.num_image, dataset->info().images);
  return dataset;
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options) {
  if (!options.overlay.empty()) return open_with_overlay(options);
  const Location found = find_layout(options.rec);
  DatasetOptions there = options;
  there.rec = found.paths.front();
  switch (found.layout) {
    case Layout::kRecordIO:
      return open_record_dataset(found.paths, options);
    case Layout::kList:
      return open_list_dataset(there);
    case Layout::kTsv:
      return open_tsv_dataset(there);
    case Layout::kTar:
      return open_tar_dataset(found.paths, options);
    case Layout::kLmdb:
      return open_lmdb_dataset(there);
    case Layout::kSafetensors:
      return open_safetensors_embeddings(there);
    case Layout::kNpy:
      return open_npy_embeddings(there);
    case Layout::kFolder:
      return open_folder_dataset(there);
    case Layout::kSynthetic:
      return open_synthetic_dataset(there);
  }
  throw std::logic_error("open_dataset: no such layout");
}

}  // namespace pfc
