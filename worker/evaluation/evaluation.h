// Runs a verification set through the network, on all workers together.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "worker/comm/comm.h"
#include "worker/evaluation/lfw_protocol.h"
#include "worker/evaluation/verification_bin.h"

namespace pfc {

/// Embeds exactly `batch` uint8 images [batch, H, W, 3] into [batch, D] host floats.
using EmbedBatch = std::function<void(std::span<const std::uint8_t> images, std::span<float> out)>;

struct EvaluationOptions {
  std::int64_t batch = 128, height = 112, width = 112, embedding_size = 512;
};

/// Splits the images over all workers (each decodes only its own), embeds image and mirror image,
/// adds the two embeddings, normalises, gathers, and verifies on every worker alike. The last batch
/// of a worker is filled up with black images. Collective: every worker calls it with the same set.
/// Throws CommError, and InputError on all workers alike when an image is damaged or of another
/// size.
VerificationResult evaluate(const VerificationSet& set, Comm& comm, const EmbedBatch& embed,
                            const EvaluationOptions& options);

}  // namespace pfc
