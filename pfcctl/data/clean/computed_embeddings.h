// Embeddings that pfcctl data clean computes itself.
#pragma once

#include <filesystem>

#include "pfcctl/data/clean/clean.h"
#include "pfcctl/data/embed/loaded_model.h"

namespace pfc {

/// Files in the folders in/ and against/ of a folder, which are removed with this object unless
/// they are to be kept.
class ComputedEmbeddings {
 public:
  /// Removes the files of an earlier run that was killed.
  ComputedEmbeddings(std::filesystem::path folder, bool keep);
  ~ComputedEmbeddings();
  ComputedEmbeddings(const ComputedEmbeddings&) = delete;
  ComputedEmbeddings& operator=(const ComputedEmbeddings&) = delete;

  /// Embeds the images of options.in, and those of options.against if it is a data set of images or
  /// a verification set. Returns the options with the new files in `embeddings`, `against` and
  /// `against_in`. Throws like write_embeddings().
  [[nodiscard]] CleanOptions embed(const ModelFlags& model, double max_damaged,
                                   CleanOptions options) const;

 private:
  void remove() const;

  const std::filesystem::path folder_;
  const bool keep_;
};

}  // namespace pfc
