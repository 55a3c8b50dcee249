// The images of a data set, for a verb that embeds them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "pfcctl/evaluation/loaded_model.h"

namespace pfc {

/// Fills rgb with images of the data set. Borrows it.
ReadImage read_images_of(const Dataset& dataset, const EmbedOptions& options);

/// Opens a data set whose images get the network's size. Throws InputError, also for embeddings.
std::unique_ptr<Dataset> open_to_embed(const std::filesystem::path& data,
                                       const EmbedOptions& options);

/// Collects what is wrong with images, of which a part may be damaged.
class Damages {
 public:
  Damages(std::int64_t images, double allowed_part)
      : images_(images), allowed_part_(allowed_part) {}
  /// Throws InputError where there are too many.
  void add(const std::string& name, const std::string& what);
  [[nodiscard]] const std::vector<std::string>& all() const { return all_; }

 private:
  const std::int64_t images_;
  const double allowed_part_;
  std::vector<std::string> all_;
};

}  // namespace pfc
