// The sets of images on which a model is evaluated, as a job's `val_targets` name them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/doing.h"
#include "model/evaluation/embed_images.h"
#include "model/evaluation/verification_bin.h"

namespace pfc {

/// Opens a data set of any layout. Its images are resized to `side` pixels, as the network needs.
/// Throws InputError, also for a data set of embeddings.
std::unique_ptr<Dataset> open_images(const std::filesystem::path& data, std::int64_t side,
                                     const Doing& doing);

/// Decodes images of the data set. Borrows it.
ReadImage read_images_of(const Dataset& dataset, ImageSize size);

/// A labelled set. Each of its images is searched for among all others.
struct RetrievalSet {
  std::string name;  ///< name of its folder
  std::filesystem::path folder;
  std::unique_ptr<Dataset> dataset;
  std::vector<std::int64_t> labels;  ///< by image
};

struct EvaluationSets {
  std::vector<VerificationSet> verification;
  std::vector<RetrievalSet> retrieval;

  [[nodiscard]] bool empty() const { return verification.empty() && retrieval.empty(); }
};

/// Opens the sets at the paths of find_verification_bins(). A folder is a retrieval set, in any
/// layout of data/layouts/layout.h. `side`: pixels of the network's images. Throws InputError.
EvaluationSets open_evaluation_sets(const std::vector<std::string>& targets,
                                    std::span<const std::filesystem::path> rec, std::int64_t side,
                                    const Doing& doing = {});

}  // namespace pfc
