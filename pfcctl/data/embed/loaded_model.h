// The model of a verb that evaluates or embeds: its options, and the network on this machine's CPU.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "kernels/ops.h"
#include "kernels/owned_tensor.h"
#include "model/evaluation/evaluation_sets.h"
#include "model/networks/backbone.h"
#include "pfcctl/data/progress.h"

namespace pfc {

struct ModelFlags {
  std::filesystem::path model;
  std::int64_t batch = 64;
  int threads = 0;  ///< 0: all cores
  Precision precision = Precision::kFp32;
};

/// Adds --batch, --threads and --precision. The variables are borrowed.
void add_compute_options(CLI::App& verb, ModelFlags& flags);
/// Adds --model and the options above.
void add_model_options(CLI::App& verb, ModelFlags& flags);

class LoadedModel {
 public:
  /// May restart the program (thread_waiting.h), so construct it before any other work. Throws
  /// InputError that names the file, or says that the processor lacks the precision.
  explicit LoadedModel(const ModelFlags& flags);

  [[nodiscard]] EmbedOptions options(bool flip) const;
  /// Returns a function that decodes images of the data set, which is borrowed.
  [[nodiscard]] ReadImage reader_of(const Dataset& dataset) const {
    return read_images_of(dataset, {options_.height, options_.width});
  }
  [[nodiscard]] EmbedBatch embed() const { return embed_with(*ops_, *backbone_, images_); }
  /// Throws InputError that names the model and image() if the length of an embedding is zero or
  /// not finite, which a damaged model causes.
  template <class Name>
  void expect_usable(double length, const Name& image) const {
    if (!(length > 0 && std::isfinite(length))) refuse(length, image());
  }

 private:
  [[noreturn]] void refuse(double length, const std::string& image) const;

  std::filesystem::path file_;
  EmbedOptions options_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Backbone> backbone_;
  OwnedTensor images_;  ///< [batch, H, W, 3], uint8
};

}  // namespace pfc
