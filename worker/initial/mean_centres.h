// Initializes class centres with the mean embedding of their images (`init_centres` "mean").
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

/// Borrows everything except plain values.
struct MeanCentres {
  Ops& ops;
  Head& head;
  Comm& comm;  ///< for tensors in host memory
  const Dataset& dataset;
  EmbedBatch embed;
  EmbedOptions options;           ///< without flip
  const std::vector<bool>& keep;  ///< rows of this shard that do not change; empty: none
  const Doing& doing;
};

/// Sets each centre to the normalised sum of the normalised embeddings of its images. A centre
/// without images does not change. The workers embed the batches in turn. Each worker adds
/// embeddings to the rows of its shard in the order of the images, so the centres are the same for
/// any number of workers. Skips damaged images. Collective. Returns a text for the log. Takes
/// mean_centres_bytes() of host memory. Throws InputError for a bad label, CommError and
/// DeviceError. REQUIRES: no update was made yet.
std::string set_mean_centres(const MeanCentres& m);

std::size_t mean_centres_bytes(int world_size, const EmbedOptions& options,
                               std::int64_t labels_per_image);

/// Returns how a job embeds images of this size for set_mean_centres().
EmbedOptions mean_centres_options(const JobConfig& job, std::int64_t height, std::int64_t width);

}  // namespace pfc
