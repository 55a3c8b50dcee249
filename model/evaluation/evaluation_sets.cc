#include "model/evaluation/evaluation_sets.h"

#include <system_error>
#include <utility>

#include "common/error.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/open_dataset.h"

namespace pfc {

namespace {

std::vector<std::int64_t> labels_of(const Dataset& dataset) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(dataset.info().images));
  ImageBuffer storage;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    try {
      labels[i] = dataset.label(static_cast<std::int64_t>(i), storage);
    } catch (const DamagedImage& e) {
      throw InputError(e.what());
    }
  }
  return labels;
}

}  // namespace

std::unique_ptr<Dataset> open_images(const std::filesystem::path& data, std::int64_t side,
                                     const Doing& doing) {
  auto dataset = open_dataset({.rec = data, .image_size = side, .doing = doing});
  if (dataset->info().embedding_size == 0) return dataset;
  throw InputError(data.string() + ": found embeddings, expected images");
}

ReadImage read_images_of(const Dataset& dataset, ImageSize size) {
  return [&dataset, size](std::int64_t image, std::span<std::uint8_t> rgb) {
    thread_local ImageDecoder decoder;
    thread_local ImageBuffer storage;
    decoder.decode(dataset.read(image, storage).encoded, size, rgb);
  };
}

EvaluationSets open_evaluation_sets(const std::vector<std::string>& targets,
                                    std::span<const std::filesystem::path> rec, std::int64_t side,
                                    const Doing& doing) {
  EvaluationSets sets;
  for (const std::filesystem::path& target : find_verification_bins(targets, rec)) {
    std::error_code error;
    if (!std::filesystem::is_directory(target, error)) {
      if (doing) doing("reading verification set " + target.string());
      sets.verification.push_back(read_verification_bin(target));
      continue;
    }
    if (doing) doing("opening retrieval set " + target.string());
    RetrievalSet set{.name = target.lexically_normal().filename().string(),
                     .folder = target,
                     .dataset = open_images(target, side, doing),
                     .labels = {}};
    if (set.name.empty()) set.name = target.parent_path().filename().string();  // "sop/"
    set.labels = labels_of(*set.dataset);
    sets.retrieval.push_back(std::move(set));
  }
  return sets;
}

}  // namespace pfc
