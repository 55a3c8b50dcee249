// Starts class centres at the mean embedding of their images (`init_centres` "mean").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "common/config/config.h"
#include "data/dataset.h"
#include "model/evaluation/embed_images.h"
#include "worker/head/head.h"

namespace pfc {

/// Borrowed but for the values.
struct MeanCentres {
  Ops& ops;
  Head& head;
  Comm& comm;  ///< for tensors in host memory
  const Dataset& dataset;
  EmbedBatch embed;
  EmbedOptions options;           ///< without flip
  const std::vector<bool>& keep;  ///< rows of this shard that stay; empty: none
  const Doing& doing;
};

/// Gives each centre the direction of the sum of its images' embeddings, each of length 1, and the
/// length 1. A centre without images stays. Workers embed alternate batches, and each adds the rows
/// of its shard in the order of the images: the centres are the same for any number of workers.
/// Damaged images are left out. Collective. Returns a text for the log. Takes mean_centres_bytes()
/// of host memory. Throws InputError for a bad label, CommError and DeviceError. REQUIRES: no
/// update was made yet.
std::string set_mean_centres(const MeanCentres& m);

std::size_t mean_centres_bytes(int world_size, const EmbedOptions& options);

/// How a job embeds images of this size for it.
EmbedOptions mean_centres_options(const JobConfig& job, std::int64_t height, std::int64_t width);

}  // namespace pfc
