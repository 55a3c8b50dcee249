#include "worker/checkpoint/stored_centres.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "common/error.h"
#include "kernels/cpu/vector/vector_kernels.h"
#include "kernels/math/bfloat16.h"
#include "worker/checkpoint/kept_tables.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;

bool one_byte_tensor(const SafetensorsFile::Tensor& t) {
  return t.dtype == "I8" || t.dtype == "F8_E4M3";
}

std::size_t bytes_of_number(const SafetensorsFile::Tensor& t) {
  if (one_byte_tensor(t)) return 1;
  return t.dtype == "F32" ? sizeof(float) : sizeof(BFloat16);
}

/// Converts the one-byte numbers of whole centres to float32. `scales` has a number for each of
/// the table's centres; the first number belongs to element `first` of the table.
void copy_scaled(const SafetensorsFile::Tensor& table, std::span<const std::byte> numbers,
                 const SafetensorsFile::Tensor& scales, std::size_t first, std::span<float> out) {
  const VectorKernels& kernels = best_vector_kernels();
  const auto size = static_cast<std::size_t>(table.shape[1] / scales.shape[1]);
  std::vector<std::uint8_t> codes(size);
  for (std::size_t i = 0; i < out.size(); i += size) {
    float scale = 0;
    std::memcpy(&scale, scales.bytes.data() + (first + i) / size * sizeof(scale), sizeof(scale));
    std::memcpy(codes.data(), numbers.data() + i, size);
    kernels.read_one_byte_row(
        {.format = table.dtype == "I8" ? OneByteFormat::kInt8 : OneByteFormat::kFp8,
         .codes = codes.data(),
         .n = static_cast<std::int64_t>(size)},
        scale, out.data() + i);
  }
}

void copy_as_float(const SafetensorsFile::Tensor& table, std::span<const std::byte> numbers,
                   std::span<float> out) {
  if (table.dtype == "F32") {
    std::memcpy(out.data(), numbers.data(), out.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    BFloat16 half;
    std::memcpy(&half, numbers.data() + i * sizeof(half), sizeof(half));
    out[i] = float_of(half);
  }
}

void check_rows(const SafetensorsFile& file, const std::string& name, std::int64_t rows,
                std::int64_t dimension, std::int64_t sub_centres) {
  const auto fail = [&](const std::string& tensor, const char* types, std::int64_t columns) {
    throw InputError(file.path().string() + ": " + tensor + " has dtype " + file.at(tensor).dtype +
                     " or an unexpected shape; expected " + types + " [" + std::to_string(rows) +
                     ", " + std::to_string(columns) + "]");
  };
  const SafetensorsFile::Tensor& stored = file.at(name);
  const bool known = stored.dtype == "F32" || stored.dtype == "BF16" || one_byte_tensor(stored);
  if (!known || stored.shape != std::vector{rows, dimension}) {
    fail(name, "F32, BF16, I8 or F8_E4M3", dimension);
  }
  if (!one_byte_tensor(stored)) return;
  const std::string scales = name + format::kScaleSuffix;
  const SafetensorsFile::Tensor& found = file.at(scales);
  if (found.dtype != "F32" || found.shape != std::vector{rows, sub_centres}) {
    fail(scales, "F32", sub_centres);
  }
  if (sub_centres < 1 || dimension % sub_centres != 0) {
    throw InputError(file.path().string() + ": " + name + " has rows of " +
                     std::to_string(dimension) + " numbers, expected a multiple of sub_centres, " +
                     std::to_string(sub_centres));
  }
}

/// Returns whether the file has momentum. Only a job with SGD and momentum 0 writes none.
bool has_momentum(const SafetensorsFile& file, OptimizerKind optimizer) {
  return optimizer == OptimizerKind::kAdamW || file.tensors().contains(format::kMomentum);
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

StoredCentres::StoredCentres(const format::Identity& identity, const ClassPositions& positions,
                             RowRange rows, OptimizerKind optimizer, const Open& open,
                             KeptRows kept)
    : dimension_(identity.embedding_size),
      optimizer_(optimizer),
      stored_(identity.positions()),
      wanted_(positions) {
  for (Rank rank = 0; rank < identity.world_size; ++rank) {
    const RowRange held = stored_.shard(rank, identity.world_size);
    // In another order, any file may hold some of the rows.
    if (stored_.same_order(wanted_) && common_rows(held, rows).size() <= 0) continue;
    SafetensorsFile file = open(format::centres_name(rank, identity.world_size));
    std::unique_ptr<const PagesOfCheckpoint> pages;
    if (identity.tables.kept()) add_tables(file);
    for (const std::string& name : centre_tensors(optimizer)) {
      if (name == format::kMomentum && !has_momentum(file, optimizer)) continue;
      check_rows(file, name, held.size(), dimension_,
                 identity.value_of("sub_centres", 1).get<std::int64_t>());
    }
    if (identity.tables.kept() && kept == KeptRows::kRead) {
      const auto folder = std::filesystem::absolute(file.path()).parent_path();
      pages = std::make_unique<PagesOfCheckpoint>(kept_name(folder, identity, rank),
                                                  identity.tables.checkpoint);
    }
    files_.push_back({std::move(file), held, std::move(pages)});
  }
}

void StoredCentres::read(const std::string& tensor, std::int64_t begin,
                         std::span<float> out) const {
  if (stored_.same_order(wanted_)) return read_stored(tensor, begin, out);
  const auto width = static_cast<std::size_t>(dimension_);
  for (std::size_t i = 0; i < out.size(); i += width) {
    const std::int64_t position = begin + static_cast<std::int64_t>(i / width);
    read_stored(tensor, stored_row(position), out.subspan(i, width));
  }
}

/// Reads rows of the files, from this one on.
void StoredCentres::read_stored(const std::string& tensor, std::int64_t begin,
                                std::span<float> out) const {
  const auto width = static_cast<std::size_t>(dimension_);
  const RowRange wanted{begin, begin + static_cast<std::int64_t>(out.size() / width)};
  for (const File& file : files_) {
    const RowRange common = common_rows(file.rows, wanted);
    if (common.size() <= 0) continue;
    const auto at = [width](std::int64_t row) { return static_cast<std::size_t>(row) * width; };
    const std::size_t first = at(common.begin - file.rows.begin);
    const std::span<float> part = out.subspan(at(common.begin - begin), at(common.size()));
    if (tensor == format::kMomentum && !has_momentum(file.content, optimizer_)) {
      std::ranges::fill(part, 0.f);
      continue;
    }
    const SafetensorsFile::Tensor& stored = file.content.at(tensor);
    std::vector<std::byte> buffer;
    const auto numbers = file.numbers(stored, first, part.size(), buffer);
    if (one_byte_tensor(stored)) {
      copy_scaled(stored, numbers, file.content.at(tensor + format::kScaleSuffix), first, part);
    } else {
      copy_as_float(stored, numbers, part);
    }
  }
}

std::span<const std::byte> StoredCentres::File::numbers(const SafetensorsFile::Tensor& table,
                                                        std::size_t first, std::size_t count,
                                                        std::vector<std::byte>& buffer) const {
  const std::size_t size = bytes_of_number(table);
  if (!pages) return table.bytes.subspan(first * size, count * size);
  buffer.resize(count * size);
  pages->read(table.offset + first * size, buffer);
  return buffer;
}

void StoredCentres::read_scales(const std::string& tensor, RowRange shard,
                                std::span<float> out) const {
  if (shard.size() == 0) return;
  check(files_.size() == 1 && files_[0].rows == shard, "stored centres: other shards");
  const std::span<const std::byte> scales =
      files_[0].content.at(tensor + format::kScaleSuffix).bytes;
  check(scales.size() == out.size_bytes(), "stored centres: another number of scales");
  std::memcpy(out.data(), scales.data(), scales.size());
}

SeenUpdates StoredCentres::seen(RowRange shard) const {
  const bool same_order = stored_.same_order(wanted_);
  SeenUpdates seen;
  seen.updated.resize(static_cast<std::size_t>(shard.size()));
  const File* first = nullptr;
  for (const File& file : files_) {
    const RowRange common = common_rows(file.rows, shard);
    if (same_order && common.size() <= 0) continue;
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
    if (same_order) {
      std::copy_n(updated.data() + (common.begin - file.rows.begin), common.size(),
                  seen.updated.data() + (common.begin - shard.begin));
      continue;
    }
    for (std::int64_t position = shard.begin; position < shard.end; ++position) {
      const std::int64_t row = stored_row(position);
      if (!file.rows.contains(row)) continue;
      seen.updated[static_cast<std::size_t>(position - shard.begin)] =
          updated[static_cast<std::size_t>(row - file.rows.begin)];
    }
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

namespace {

/// Applies the missed updates to those rows of weight [n, D] whose momentum is not zero. updated
/// [n]: number of updates that each row has seen.
void use_up_momentum(const UpdateHistory& history, std::span<std::int32_t> updated,
                     std::span<float> weight, std::span<float> momentum) {
  std::vector<std::int64_t> rows(updated.size());
  std::iota(rows.begin(), rows.end(), 0);
  CatchUpPlan plan;
  plan.make(history, updated, /*first_class=*/0, rows);
  const std::size_t d = weight.size() / updated.size();
  for (std::size_t row = 0; row < updated.size(); ++row) {
    const auto own = momentum.subspan(row * d, d);
    if (std::ranges::all_of(own, [](float x) { return x == 0; })) continue;
    const CatchUp& missed = plan.table()[plan.index()[row]];
    if (missed.wv == 0 && missed.vv == 0) continue;  // the momentum has no effect any more
    for (std::size_t i = 0; i < d; ++i) apply_sgd(missed, weight[row * d + i], own[i]);
    updated[row] = history.count();
  }
}

}  // namespace

void fill_centres(const TrainingState& state, const SeenUpdates& seen, const ReadRows& read) {
  const Head::State head = state.head.state();
  const RowRange shard = state.head.shard();
  const std::int64_t dimension = head.centres.shape[1];
  const std::array<ScaledRows, 3> tensors{head.centres, head.momentum, head.second};
  const std::vector<std::string> names = centre_tensors(head.history->optimizer());
  std::ranges::copy(seen.updated, head.updated.begin());
  head.history->restore(seen.updates);
  std::vector<std::vector<float>> rows(names.size());
  for (const RowRange& piece : pieces_of(shard, dimension)) {
    const auto first = static_cast<std::size_t>(piece.begin - shard.begin);
    for (std::size_t i = 0; i < names.size(); ++i) {
      rows[i].resize(static_cast<std::size_t>(piece.size() * dimension));
      read(names[i], piece.begin, rows[i]);
    }
    if (!head.momentum) {
      use_up_momentum(*head.history,
                      head.updated.subspan(first, static_cast<std::size_t>(piece.size())), rows[0],
                      rows[1]);
    }
    const auto pinned = state.head.pin(piece, PageUse::kChange);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!tensors[i]) continue;
      copy_rows_to_device(state.ops, row_range(tensors[i], piece.begin - shard.begin, piece.size()),
                          rows[i].data());
    }
  }
  state.head.state_changed();
}

void fill_beside_tables(const TrainingState& state, const SeenUpdates& seen,
                        const StoredCentres& centres) {
  const Head::State head = state.head.state();
  std::ranges::copy(seen.updated, head.updated.begin());
  head.history->restore(seen.updates);
  const auto set_scales = [&](const char* name, const Tensor& scales) {
    if (!scales) return;
    centres.read_scales(name, state.head.shard(),
                        {scales.f32(), static_cast<std::size_t>(scales.elements())});
  };
  set_scales(format::kWeight, head.centres.scales);
  set_scales(format::kMomentum, head.momentum.scales);
  state.head.state_changed();
}

CaughtUpRows::CaughtUpRows(const StoredCentres& centres, const UpdateHistory& history,
                           RowRange rows, std::int64_t dimension)
    : CaughtUpRows(centres, history, rows, dimension, centres.seen(rows).updated) {}

CaughtUpRows::CaughtUpRows(const StoredCentres& centres, const UpdateHistory& history,
                           RowRange rows, std::int64_t dimension,
                           std::span<const std::int32_t> updated)
    : centres_(centres), history_(history), rows_(rows), dimension_(dimension) {
  std::vector<std::int64_t> classes(static_cast<std::size_t>(rows.size()));
  std::iota(classes.begin(), classes.end(), rows.begin);
  plan_.make(history, updated, rows.begin, classes);
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
