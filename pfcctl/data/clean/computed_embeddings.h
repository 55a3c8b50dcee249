// Embeddings that pfcctl data clean computes itself.
#pragma once

#include <filesystem>

#include "pfcctl/data/clean/clean.h"
#include "pfcctl/data/embed/loaded_model.h"

namespace pfc {

/// Owns the embeddings in FOLDER/in and FOLDER/against. The destructor removes them unless `keep`.
class ComputedEmbeddings {
 public:
  /// Unless `keep`, removes the files that a killed run has left.
  ComputedEmbeddings(std::filesystem::path folder, bool keep);
  ~ComputedEmbeddings();
  ComputedEmbeddings(const ComputedEmbeddings&) = delete;
  ComputedEmbeddings& operator=(const ComputedEmbeddings&) = delete;

  /// Embeds the images of options.in, and those of options.against if it is a data set of images or
  /// a verification set. Returns the options with the folders of the new embeddings in `embeddings`
  /// and `against`, and the embedded images of the test set in `against_in`. Throws like
  /// write_embeddings().
  [[nodiscard]] CleanOptions embed(const ModelFlags& model, double max_damaged,
                                   CleanOptions options) const;

 private:
  void remove() const;

  const std::filesystem::path folder_;
  const bool keep_;
};

}  // namespace pfc
