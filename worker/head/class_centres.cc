#include "worker/head/class_centres.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "kernels/cpu/normal_row.h"
#include "kernels/math/missed_updates.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

constexpr float kInitialDeviation = 0.01f;

}  // namespace

CentreBytes ClassCentres::bytes(std::int64_t rows, const CentreOptions& options) {
  const auto r = static_cast<std::size_t>(rows);
  const std::size_t numbers = r * static_cast<std::size_t>(options.dimension);
  const std::size_t state = numbers * size_of(momentum_type(options.precision));
  const std::size_t of_centres = r * static_cast<std::size_t>(options.sub_centres) * sizeof(float);
  return {.weight = numbers * size_of(weight_type(options.precision)),
          .momentum = options.momentum ? state : 0,
          .second = options.optimizer == OptimizerKind::kAdamW ? state : 0,
          .scales = is_one_byte(options.precision) ? of_centres * (options.momentum ? 2 : 1) : 0,
          .inverse_norm = of_centres,
          .updated = r * sizeof(updated_[0])};
}

ClassCentres::ClassCentres(Ops& ops, RowRange shard, const CentreOptions& options)
    : shard_(shard), options_(options), history_(options.optimizer) {
  const CentreBytes sizes = bytes(shard.size(), options);
  weight_ = ops.allocate(sizes.weight);
  inverse_norm_ = ops.allocate(sizes.inverse_norm);
  if (options.momentum) momentum_ = ops.allocate(sizes.momentum);
  if (sizes.second > 0) second_ = ops.allocate(sizes.second);
  if (is_one_byte(options.precision)) {
    weight_scales_ = ops.allocate(sizes.inverse_norm);
    if (options.momentum) momentum_scales_ = ops.allocate(sizes.inverse_norm);
  }
  updated_.resize(sizes.updated / sizeof(updated_[0]));
  initialise(ops);
}

CentreTable ClassCentres::table() {
  const Shape shape{shard_.size(), options_.dimension};
  const Shape of_centres{shard_.size(), options_.sub_centres};
  const auto view = [](const std::unique_ptr<Buffer>& buffer, DType type, const Shape& rows) {
    return buffer ? Tensor(buffer->data(), type, rows) : Tensor();
  };
  const auto scales = [&](const std::unique_ptr<Buffer>& buffer) {
    return view(buffer, DType::kFloat32, of_centres);
  };
  const DType state = momentum_type(options_.precision);
  return {.first_class = shard_.begin,
          .weight = {view(weight_, weight_type(options_.precision), shape), scales(weight_scales_)},
          .inverse_norm = {inverse_norm_->data(),
                           DType::kFloat32,
                           {shard_.size() * options_.sub_centres}},
          .momentum = {view(momentum_, state, shape), scales(momentum_scales_)},
          .second = view(second_, state, shape),
          .updated = updated_,
          .history = &history_};
}

void ClassCentres::initialise(Ops& ops) {
  const std::int64_t d = options_.dimension;
  const ScaledRows weight = table().weight;
  const std::int64_t most = rows_at_once(d);  // drawn on the host, then copied
  std::vector<float> rows(static_cast<std::size_t>(std::min(most, shard_.size()) * d));
  for (std::int64_t begin = 0; begin < shard_.size(); begin += most) {
    const std::int64_t count = std::min(most, shard_.size() - begin);
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < count; ++row) {
      draw_normal_row({.seed = options_.seed,
                       .stream = Stream::kCentreInit,
                       .row = static_cast<std::uint64_t>(
                           options_.positions.label_at(shard_.begin + begin + row)),
                       .deviation = kInitialDeviation},
                      {rows.data() + row * d, static_cast<std::size_t>(d)});
      if (options_.bias) rows[static_cast<std::size_t>((row + 1) * d - 1)] = 0;
    }
    copy_rows_to_device(ops, row_range(weight, begin, count), rows.data());
  }
}

void ClassCentres::read_current(Ops& ops, RowRange classes, std::span<float> rows) {
  const CentreTable t = table();
  const auto d = static_cast<std::size_t>(options_.dimension);
  check(rows.size() == static_cast<std::size_t>(classes.size()) * d,
        "class centres: rows must be [classes, D]");
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(classes.size()));
  std::iota(numbers.begin(), numbers.end(), classes.begin);
  CatchUpPlan missed;
  missed.make(history_, updated_, shard_.begin, numbers);
  const auto read = [&](const ScaledRows& from, std::span<float> to) {
    copy_rows_to_host(ops, to.data(),
                      row_range(from, classes.begin - shard_.begin, classes.size()));
  };
  read(t.weight, rows);
  if (missed.table().size() < 2) return;  // no row has missed an update
  std::vector<float> momentum(rows.size()), second(t.second ? rows.size() : 0);
  if (t.momentum) read(t.momentum, momentum);
  if (t.second) read(t.second, second);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint32_t index = missed.index()[i / d];
    if (index == 0) continue;
    const CatchUp& catch_up = missed.table()[index];
    if (t.second) {
      apply_adamw(catch_up, rows[i], momentum[i], second[i]);
    } else {
      apply_sgd(catch_up, rows[i], momentum[i]);
    }
  }
}

}  // namespace pfc
