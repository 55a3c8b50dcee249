// The sets of images on which a model is evaluated, as a job's `val_targets` and `val_rec` name
// them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "data/dataset.h"
#include "data/doing.h"
#include "model/evaluation/embed_images.h"
#include "model/evaluation/verification_bin.h"

namespace pfc {

/// Opens a data set of any layout. Its images are resized to `side` pixels, as the network needs.
/// Throws InputError, also for a data set of embeddings.
std::unique_ptr<Dataset> open_images(const std::filesystem::path& data, std::int64_t side,
                                     const Doing& doing);

/// Decodes images of the data set. Borrows it. `resize`: 0, or the shorter side of an image before
/// its centre is taken (ImageDecoder::decode_centre()).
ReadImage read_images_of(const Dataset& dataset, ImageSize size, std::int64_t resize = 0);

/// Images and their labels, in any layout of data/layouts/layout.h.
struct LabelledSet {
  std::string name;  ///< name of its folder or file
  std::filesystem::path path;
  std::unique_ptr<Dataset> dataset;
  std::vector<std::int64_t> labels;  ///< by image
  /// [images, labels_per_image - 1]: the other labels of each image (Dataset::other_labels()).
  std::vector<std::int64_t> other_labels = {};
  std::int64_t resize = 0;  ///< see read_images_of()
};
/// A set for retrieval: each image, which has one label, is searched for among all other images.
struct RetrievalSet : LabelledSet {};
/// A set whose labels are classes of the training data.
struct ClassificationSet : LabelledSet {
  bool by_name = false;  ///< classes were found by name, not by number
};

struct EvaluationSets {
  std::vector<VerificationSet> verification;
  std::vector<RetrievalSet> retrieval;
  std::vector<ClassificationSet> classification;

  [[nodiscard]] bool empty() const {
    return verification.empty() && retrieval.empty() && classification.empty();
  }
};

/// Opens the sets that find_verification_bins() finds. A folder is a retrieval set, in any layout
/// of data/layouts/layout.h. `side`: pixels of the network's images. Throws InputError.
EvaluationSets open_evaluation_sets(const std::vector<std::string>& targets,
                                    std::span<const std::filesystem::path> rec, std::int64_t side,
                                    const Doing& doing = {});

/// Opens a data set with the classes of the training data. If both have names, a class is found by
/// its name, otherwise by its number. Throws InputError, also for an image of another class.
ClassificationSet open_classification_set(const std::filesystem::path& path,
                                          const Dataset& training, std::int64_t resize,
                                          const Doing& doing = {});

/// Opens all sets of a job.
EvaluationSets open_evaluation_sets(const JobConfig& job, const Dataset& training,
                                    const Doing& doing = {});

}  // namespace pfc
