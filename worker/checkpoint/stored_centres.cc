#include "worker/checkpoint/stored_centres.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "common/error.h"
#include "kernels/math/bfloat16.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;

/// Copies elements from index `first` on as float32.
void copy_as_float(const SafetensorsFile::Tensor& stored, std::size_t first, std::span<float> out) {
  if (stored.dtype == "F32") {
    std::memcpy(out.data(), stored.bytes.data() + first * sizeof(float), out.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    BFloat16 half;
    std::memcpy(&half, stored.bytes.data() + (first + i) * sizeof(half), sizeof(half));
    out[i] = float_of(half);
  }
}

void check_rows(const SafetensorsFile& file, const std::string& name, std::int64_t rows,
                std::int64_t dimension) {
  const SafetensorsFile::Tensor& stored = file.at(name);
  const std::vector<std::int64_t> shape{rows, dimension};
  if (stored.shape == shape && (stored.dtype == "F32" || stored.dtype == "BF16")) return;
  throw InputError(file.path().string() + ": " + name + " has dtype " + stored.dtype +
                   " or an unexpected shape; expected F32 or BF16 [" + std::to_string(shape[0]) +
                   ", " + std::to_string(dimension) + "]");
}

/// Returns all updates that this file records, seen by its rows or not; empty if it records none.
std::vector<PastUpdate> read_updates(const SafetensorsFile& file, OptimizerKind optimizer) {
  if (!file.tensors().contains(format::kUpdates)) return {};
  const SafetensorsFile::Tensor& stored = file.at(format::kUpdates);
  const bool fits = stored.dtype == "F32" && stored.shape.size() == 2 && stored.shape[1] == 3 &&
                    stored.shape[0] <= std::numeric_limits<std::int32_t>::max();
  if (!fits) {
    throw InputError(file.path().string() + ": expected the tensor \"updates\" to be F32 [N, 3]");
  }
  std::vector<PastUpdate> updates(static_cast<std::size_t>(stored.shape[0]));
  std::memcpy(updates.data(), stored.bytes.data(), stored.bytes.size());
  const auto possible = [optimizer](const PastUpdate& u) {
    return std::isfinite(u.lr) && std::isfinite(u.momentum_or_number) &&
           std::isfinite(u.weight_decay) &&
           (optimizer == OptimizerKind::kSgd || u.momentum_or_number >= 1);
  };
  const auto wrong = std::ranges::find_if_not(updates, possible);
  if (wrong == updates.end()) return updates;
  throw InputError(file.path().string() + ": updates[" + std::to_string(wrong - updates.begin()) +
                   "]: expected three finite numbers" +
                   (optimizer == OptimizerKind::kSgd ? "" : ", the second at least 1"));
}

/// Returns how many of the `count` updates each of the file's rows has seen.
std::vector<std::int32_t> read_updated(const SafetensorsFile& file, std::int64_t rows,
                                       std::size_t count) {
  std::vector<std::int32_t> updated(static_cast<std::size_t>(rows));
  if (count == 0) return updated;
  const SafetensorsFile::Tensor& stored = file.at(format::kUpdated);
  const bool fits = stored.dtype == "I32" && stored.shape == std::vector<std::int64_t>{rows};
  if (fits) std::memcpy(updated.data(), stored.bytes.data(), stored.bytes.size());
  const auto seen = [count](std::int32_t u) {
    return u >= 0 && static_cast<std::size_t>(u) <= count;
  };
  if (fits && std::ranges::all_of(updated, seen)) return updated;
  throw InputError(file.path().string() + ": expected the tensor \"updated\" to be I32 [" +
                   std::to_string(rows) + "] of numbers from 0 to " + std::to_string(count));
}

}  // namespace

StoredCentres::StoredCentres(const format::Identity& identity, RowRange rows,
                             OptimizerKind optimizer, const Open& open)
    : dimension_(identity.embedding_size), optimizer_(optimizer) {
  for (Rank rank = 0; rank < identity.world_size; ++rank) {
    const RowRange held = shard_of(identity.classes, rank, identity.world_size);
    if (common_rows(held, rows).size() <= 0) continue;
    SafetensorsFile file = open(format::centres_name(rank, identity.world_size));
    for (const std::string& name : centre_tensors(optimizer)) {
      check_rows(file, name, held.size(), dimension_);
    }
    files_.push_back({std::move(file), held});
  }
}

void StoredCentres::read(const std::string& tensor, std::int64_t begin,
                         std::span<float> out) const {
  const auto width = static_cast<std::size_t>(dimension_);
  const RowRange wanted{begin, begin + static_cast<std::int64_t>(out.size() / width)};
  for (const File& file : files_) {
    const RowRange common = common_rows(file.rows, wanted);
    if (common.size() <= 0) continue;
    const auto at = [width](std::int64_t row) { return static_cast<std::size_t>(row) * width; };
    copy_as_float(file.content.at(tensor), at(common.begin - file.rows.begin),
                  out.subspan(at(common.begin - begin), at(common.size())));
  }
}

SeenUpdates StoredCentres::seen(RowRange shard) const {
  SeenUpdates seen;
  seen.updated.resize(static_cast<std::size_t>(shard.size()));
  const File* first = nullptr;
  for (const File& file : files_) {
    const RowRange common = common_rows(file.rows, shard);
    if (common.size() <= 0) continue;
    std::vector<PastUpdate> updates = read_updates(file.content, optimizer_);
    if (first != nullptr && updates.size() != seen.updates.size()) {
      throw InputError(file.content.path().string() + ": has " + std::to_string(updates.size()) +
                       " updates, " + first->content.path().string() + " has " +
                       std::to_string(seen.updates.size()));
    }
    if (first == nullptr) first = &file;
    seen.updates = std::move(updates);
    const std::vector<std::int32_t> updated =
        read_updated(file.content, file.rows.size(), seen.updates.size());
    std::copy_n(updated.data() + (common.begin - file.rows.begin), common.size(),
                seen.updated.data() + (common.begin - shard.begin));
  }
  return seen;
}

std::vector<RowRange> pieces_of(RowRange shard, std::int64_t dimension) {
  const std::int64_t most = rows_at_once(dimension);
  std::vector<RowRange> pieces;
  for (std::int64_t begin = shard.begin; begin < shard.end; begin += most) {
    pieces.push_back({begin, std::min(begin + most, shard.end)});
  }
  return pieces;
}

std::vector<std::string> centre_tensors(OptimizerKind optimizer) {
  std::vector<std::string> names{format::kWeight, format::kMomentum};
  if (optimizer == OptimizerKind::kAdamW) names.emplace_back(format::kSecond);
  return names;
}

void fill_centres(const TrainingState& state, const SeenUpdates& seen, const ReadRows& read) {
  const Head::State head = state.head.state();
  const RowRange shard = state.head.shard();
  const std::int64_t dimension = head.centres.shape[1];
  const std::array<Tensor, 3> tensors{head.centres, head.momentum, head.second};
  const std::vector<std::string> names = centre_tensors(head.history->optimizer());
  std::vector<float> rows;
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const RowRange& piece : pieces_of(shard, dimension)) {
      rows.resize(static_cast<std::size_t>(piece.size() * dimension));
      read(names[i], piece.begin, rows);
      copy_rows_to_device(state.ops, row_range(tensors[i], piece.begin - shard.begin, piece.size()),
                          rows.data());
    }
  }
  std::ranges::copy(seen.updated, head.updated.begin());
  head.history->restore(seen.updates);
  state.head.state_changed();
}

CaughtUpRows::CaughtUpRows(const StoredCentres& centres, const UpdateHistory& history,
                           RowRange rows, std::int64_t dimension)
    : centres_(centres), history_(history), rows_(rows), dimension_(dimension) {
  std::vector<std::int64_t> classes(static_cast<std::size_t>(rows.size()));
  std::iota(classes.begin(), classes.end(), rows.begin);
  plan_.make(history, centres.seen(rows).updated, rows.begin, classes);
}

std::span<const std::byte> CaughtUpRows::tensor(std::size_t which) {
  out_.resize(static_cast<std::size_t>(rows_.size() * dimension_));
  const std::vector<std::string> names = centre_tensors(history_.optimizer());
  std::vector<std::vector<float>> piece(3);
  for (const RowRange& rows : pieces_of(rows_, dimension_)) {
    const auto count = static_cast<std::size_t>(rows.size() * dimension_);
    for (std::vector<float>& values : piece) values.resize(count);
    for (std::size_t i = 0; i < names.size(); ++i) centres_.read(names[i], rows.begin, piece[i]);
    catch_up(rows.begin - rows_.begin, piece);
    std::ranges::copy(piece[which], out_.begin() + (rows.begin - rows_.begin) * dimension_);
  }
  return std::as_bytes(std::span(out_));
}

/// piece: weights and moments of rows of this shard, from `first` on.
void CaughtUpRows::catch_up(std::int64_t first, std::vector<std::vector<float>>& piece) const {
  for (std::size_t i = 0; i < piece[0].size(); ++i) {
    const std::size_t row =
        static_cast<std::size_t>(first) + i / static_cast<std::size_t>(dimension_);
    const std::uint32_t index = plan_.index()[row];
    if (index == 0) continue;
    const CatchUp& c = plan_.table()[index];
    if (history_.optimizer() == OptimizerKind::kSgd) {
      apply_sgd(c, piece[0][i], piece[1][i]);
    } else {
      apply_adamw(c, piece[0][i], piece[1][i], piece[2][i]);
    }
  }
}

}  // namespace pfc
