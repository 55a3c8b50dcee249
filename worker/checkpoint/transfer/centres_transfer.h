// Sends rows of class centres from rank 0's host to workers that do not see its output folder.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/checkpoint/output_links.h"
#include "worker/checkpoint/stored_centres.h"

namespace pfc {

/// The rows to send to a worker over a link.
struct CentresWanted {
  const OutputLink* link = nullptr;  ///< borrowed
  RowRange shard;
};

/// Sends each worker its rows as float32, one piece per worker in turn. `dimension`: of an
/// embedding. Throws CommError that names the worker and its host if one is lost. REQUIRES: each
/// of the workers calls receive_centres(), and all rows to send were opened.
void send_centres(const StoredCentres& centres, OptimizerKind optimizer, std::int64_t dimension,
                  const std::vector<CentresWanted>& wanted);

/// Receives this worker's rows from rank 0. Throws CommError.
void receive_centres(Comm& to_rank_zero, const TrainingState& state);

}  // namespace pfc
