// Writes the embeddings of a data set.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "pfcctl/data/embed/loaded_model.h"

namespace pfc {

struct EmbeddingFiles {
  /// F.safetensors with embeddings and labels; or F.npy, with labels.npy in the same folder.
  std::filesystem::path out;
  std::filesystem::path data, model;  ///< names in the metadata of F.safetensors
  bool flip = false;                  ///< adds the embedding of the mirror image
  double max_damaged = 0.001;         ///< fraction of the images
};

/// Returns F.names.txt for F.safetensors or F.npy: the names of its images.
std::filesystem::path path_of_names(std::filesystem::path embeddings);
/// Returns labels.npy in the folder of F.npy.
std::filesystem::path path_of_labels(const std::filesystem::path& embeddings);

/// Embeds the images and writes F, F.names.txt and, if the data have names, identities.txt. All
/// files appear after the last row was computed. The row of a damaged image is zero. Returns the
/// damaged images. Memory does not grow with the number of images, except in the open data set.
/// Shows its progress, and throws after an interrupt like Progress::show(). Throws InputError if
/// too many images are damaged, or if labels.npy or identities.txt belong to another data set.
std::vector<std::string> write_embeddings(const Dataset& dataset, const LoadedModel& model,
                                          const EmbeddingFiles& files);

}  // namespace pfc
