// Measures a network's accuracy on verification and retrieval sets, with all workers together.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "comm/comm.h"
#include "comm/shard.h"
#include "data/doing.h"
#include "model/evaluation/embed_images.h"
#include "model/evaluation/evaluation_sets.h"
#include "model/evaluation/lfw_protocol.h"

namespace pfc {

/// Decodes images [begin, end) of the set once and discards the pixels. Throws InputError that
/// names file, pair and image if one is damaged or has another size. Also throws InputError unless
/// the set has at least two pairs, some of one person and some of two.
void check_verification_set(const VerificationSet& set, RowRange images,
                            const EmbedOptions& options, const Doing& doing = {});

/// Same for a retrieval set, which needs at least two images with the same label.
void check_retrieval_set(const RetrievalSet& set, RowRange images, const EmbedOptions& options,
                         const Doing& doing = {});

/// Each worker decodes its share of the images, shard_of(images, rank, workers). It embeds each
/// image and its mirror image, adds the two embeddings and normalises the sum. Then every worker
/// gathers all embeddings and computes the same result. The last batch of a worker is padded
/// with black images. Collective: every worker calls it with the same set. Throws CommError, and
/// InputError on every worker if an image is damaged or of another size. REQUIRES: options.flip.
VerificationResult evaluate(const VerificationSet& set, Comm& comm, const EmbedBatch& embed,
                            const EmbedOptions& options);

inline constexpr std::array<std::int64_t, 4> kRecallRanks = {1, 10, 100, 1000};

struct RetrievalResult {
  std::string name;
  std::int64_t images = 0;
  std::int64_t queries = 0;  ///< images that share their label with another one
  /// Recall@K for each K of kRecallRanks: the fraction of the queries that have an image with their
  /// label among the K most similar other images (Song et al. 2016, "Deep Metric Learning via
  /// Lifted Structured Feature Embedding").
  std::array<double, kRecallRanks.size()> recalls{};
  double embedding_norm = 0;  ///< as in VerificationResult
  double seconds = 0;
};

/// Embeds the images as above. Then each worker searches for its share of them among all images,
/// with exact products in float64 on options.threads threads. Collective; throws as above.
RetrievalResult evaluate(const RetrievalSet& set, Comm& comm, const EmbedBatch& embed,
                         const EmbedOptions& options);

/// Upper bounds on the memory of evaluate(), in bytes, for a verification set and a retrieval set
/// of `images` images.
std::size_t evaluation_bytes(std::int64_t images, int world_size, const EmbedOptions& options);
std::size_t retrieval_bytes(std::int64_t images, int world_size, const EmbedOptions& options);

}  // namespace pfc
