// Measures a network's accuracy on verification, retrieval and classification sets, with all
// workers together.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "comm/comm.h"
#include "comm/shard.h"
#include "data/doing.h"
#include "model/evaluation/class_ranks.h"
#include "model/evaluation/embed_images.h"
#include "model/evaluation/evaluation_sets.h"
#include "model/evaluation/identification.h"
#include "model/evaluation/lfw_protocol.h"

namespace pfc {

/// Decodes images [begin, end) of the set once and discards the pixels. Throws InputError that
/// names file, pair and image if one is damaged or has another size. Also throws InputError if the
/// set has fewer than two pairs, or only genuine pairs, or only impostor pairs.
void check_verification_set(const VerificationSet& set, RowRange images,
                            const EmbedOptions& options, const Doing& doing = {});

/// Same as check_verification_set() for a retrieval set. Instead of pairs, at least two images must
/// have the same label.
void check_retrieval_set(const RetrievalSet& set, RowRange images, const EmbedOptions& options,
                         const Doing& doing = {});
/// Same as check_verification_set() for a classification set, which may have any number of images.
void check_classification_set(const ClassificationSet& set, RowRange images,
                              const EmbedOptions& options, const Doing& doing = {});

/// Each worker decodes its share of the images, shard_of(images, rank, workers). It embeds each
/// image and its mirror image, adds the two embeddings and normalises the sum. Then every worker
/// gathers all embeddings and computes the same result. The last batch of a worker is padded
/// with black images. Collective: every worker calls it with the same set. Throws CommError, and
/// InputError on every worker if an image is damaged or of another size. REQUIRES: options.flip.
VerificationResult evaluate(const VerificationSet& set, Comm& comm, const EmbedBatch& embed,
                            const EmbedOptions& options);

struct RetrievalResult {
  std::string name;
  std::int64_t images = 0;
  std::int64_t queries = 0;  ///< images that share their label with another one
  /// Recall@K for each K of kRecallRanks: the fraction of the queries for which the K most similar
  /// other images include one with the query's label (Song et al. 2016, "Deep Metric Learning via
  /// Lifted Structured Feature Embedding").
  std::array<double, kRecallRanks.size()> recalls{};
  /// P@K: the mean fraction of the K most similar other images that have the query's label.
  std::array<double, kRecallRanks.size()> precisions{};
  double embedding_norm = 0;  ///< as in VerificationResult
  double seconds = 0;
};

/// Embeds the images as the function above does. Then each worker searches for its share of the
/// images among all images, with exact products in float64, on options.threads threads. Collective.
/// Throws the same errors.
RetrievalResult evaluate(const RetrievalSet& set, Comm& comm, const EmbedBatch& embed,
                         const EmbedOptions& options);

inline constexpr std::array<std::int64_t, 2> kTopRanks = {1, 5};

struct ClassificationResult {
  std::string name;
  std::int64_t images = 0;
  /// For each k of kTopRanks: the fraction of the images whose class is among the k classes with
  /// the highest scores.
  std::array<double, kTopRanks.size()> top{};
  double embedding_norm = 0;  ///< mean length of an embedding
  double seconds = 0;
};

/// Embeds the images as the function above does, but without mirror images. Then each worker
/// compares them with its classes, on options.threads threads. Collective. Throws the same errors.
/// REQUIRES: not options.flip.
ClassificationResult evaluate(const ClassificationSet& set, Comm& comm, const EmbedBatch& embed,
                              const EmbedOptions& options, const ClassLayer& layer);

/// Upper bounds on the memory of evaluate(), in bytes, for a set of `images` images: a
/// verification, retrieval or classification set.
std::size_t evaluation_bytes(std::int64_t images, int world_size, const EmbedOptions& options);
std::size_t retrieval_bytes(std::int64_t images, int world_size, const EmbedOptions& options);
std::size_t classification_bytes(std::int64_t images, int world_size, const EmbedOptions& options);

}  // namespace pfc
