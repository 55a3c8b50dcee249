// Robust centre of the embeddings of one identity, of which some may show other people.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace pfc {

/// The rows that show one person, as far as they agree.
struct AgreeingRows {
  std::vector<bool> kept;   ///< [n]: agrees with the others that are kept; at least one
  std::size_t count = 0;    ///< number of rows kept
  std::vector<float> mean;  ///< [D] of the rows kept; shorter than 1 unless they are equal
  /// [n]: mean cosine to the other rows that are kept; if there is none, to all other rows. 1 for
  /// a single row.
  std::vector<float> similarity;
};

/// Returns the row with the largest mean cosine to the others (the medoid); of several, the first.
std::size_t medoid_of(std::span<const float> rows, std::size_t dimension);

/// Begins with the rows whose cosine to the medoid is at least `same`, and then keeps the rows
/// whose similarity is at least `same`, until nothing changes (at most four times). This is a
/// trimmed mean whose trimmed part follows from the data. If fewer than half are kept, tries the
/// medoid of the others too, and returns the larger result. Takes O(n D). rows: [n, D], of unit
/// length, n > 0.
AgreeingRows agreeing_rows(std::span<const float> rows, std::size_t dimension, double same);

}  // namespace pfc
