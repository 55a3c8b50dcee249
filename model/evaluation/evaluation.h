// The accuracy of the network on a verification set, computed by all workers together.
#pragma once

#include <cstdint>

#include "comm/comm.h"
#include "comm/shard.h"
#include "data/doing.h"
#include "model/evaluation/embed_images.h"
#include "model/evaluation/lfw_protocol.h"
#include "model/evaluation/verification_bin.h"

namespace pfc {

/// Decodes images [begin, end) of the set once, and keeps none. Throws InputError that names file,
/// pair and image where one is damaged or of another size, and where there are fewer than two
/// pairs, or no pair of one person, or none of two.
void check_verification_set(const VerificationSet& set, RowRange images,
                            const EmbedOptions& options, const Doing& doing = {});

/// Each worker decodes its share of the images, shard_of(images, rank, workers). It embeds each
/// image and its mirror image, adds the two embeddings and normalises the sum. Then every worker
/// gathers all embeddings and computes the same result. The last batch of a worker is filled up
/// with black images. Collective: every worker calls it with the same set. Throws CommError, and
/// InputError on every worker when an image is damaged or of another size. REQUIRES: options.flip.
VerificationResult evaluate(const VerificationSet& set, Comm& comm, const EmbedBatch& embed,
                            const EmbedOptions& options);

/// Bytes of memory that evaluate() takes at most for a set of so many images.
std::size_t evaluation_bytes(std::int64_t images, int world_size, const EmbedOptions& options);

}  // namespace pfc
