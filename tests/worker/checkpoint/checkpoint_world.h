// Small workers with a state for checkpoints. Every number is a function of its place; those of a
// row of centres are functions of its label.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comm/shard.h"
#include "kernels/make_ops.h"
#include "worker/checkpoint/checkpoint.h"

namespace pfc {

/// Returns a value that differs by tensor, row and version, and needs all its bits.
inline float place_value(int version, int tensor, std::int64_t row, std::int64_t i) {
  return static_cast<float>(version * 1000 + tensor * 100) + static_cast<float>(row) / 3.f +
         static_cast<float>(i) / 1024.f;
}

/// Two parameters, one with another layout than in PyTorch, and one running statistic.
class SmallBackbone : public Backbone {
 public:
  [[nodiscard]] Tensor operands() const override { return {}; }
  explicit SmallBackbone(Ops& ops) {
    weights.parameters = {{.name = "conv1.weight",
                           .torch_shape = {4, 3, 2, 2},
                           .layout = ParameterLayout::kConvolution,
                           .offset = 0,
                           .count = 48},
                          {.name = "fc.bias", .torch_shape = {5}, .offset = 48, .count = 5}};
    weights.count = 64;
    weights.buffer = ops.allocate(64 * sizeof(float));
    state.parameters = {{.name = "bn1.running_var", .torch_shape = {7}, .offset = 0, .count = 7}};
    state.count = 16;
    state.buffer = ops.allocate(16 * sizeof(float));
  }
  [[nodiscard]] Tensor input() const override { return {}; }
  void read(const Tensor&) override {}
  Tensor forward(const Tensor&, bool, std::int64_t) override { return {}; }
  void backward(const Tensor&, const BackwardOptions&, const GradientsReady&) override {}
};

/// A head with one worker's rows.
class SmallHead : public Head {
 public:
  SmallHead(const ClassPositions& positions, RowRange shard, std::int64_t dimension,
            OptimizerKind optimizer, std::int64_t neighbours = 0)
      : degree_(neighbours),
        positions_(positions),
        shard_(shard),
        dimension_(dimension),
        has_second_(optimizer == OptimizerKind::kAdamW),
        history_(optimizer) {
    for (auto& values : values_) values.resize(static_cast<std::size_t>(shard.size() * dimension));
    updated_.resize(static_cast<std::size_t>(shard.size()));
  }
  void follow(std::function<HeadSettings(std::int64_t)>) override {}
  [[nodiscard]] HeadSettings settings(std::int64_t) const override { return {}; }
  [[nodiscard]] const ClassPositions& positions() const override { return positions_; }
  [[nodiscard]] ActiveCentres sample(std::span<const std::int64_t>, std::int64_t) const override {
    return {};
  }
  HeadResult run(const Step&) override { return {}; }
  void move(const Step&) override {}
  void target_cosines(std::span<float>) override {}
  [[nodiscard]] RowRange shard() const override { return shard_; }
  [[nodiscard]] const LossState& loss_before(std::int64_t) const override { return loss; }
  [[nodiscard]] State state() override {
    return {.centres = tensor(0),
            .momentum = tensor(1),
            .second = has_second_ ? tensor(2) : Tensor(),
            .updated = updated_,
            .history = &history_,
            .loss = &loss,
            .neighbours = degree_ > 0 ? &neighbours_ : nullptr};
  }
  void read_current(RowRange, std::span<float>) override {}
  void state_changed() override { ++changes; }
  void settle(std::span<const std::int64_t>) override {}
  void settle_all() override {}
  [[nodiscard]] Tensor teacher() override { return {}; }

  /// Sets `version` updates; each row has seen a different number of them.
  void fill_history(int version) {
    history_.restore({});
    for (int n = 1; n <= version; ++n) history_.add(update(version, n));
    for (std::size_t i = 0; i < updated_.size(); ++i) updated_[i] = seen(version, i);
  }
  [[nodiscard]] int history_differences(int version) const {
    if (updated_.empty()) return 0;
    int count = std::abs(history_.count() - version);
    for (int n = 1; count == 0 && n <= version; ++n) {
      count +=
          history_.updates()[static_cast<std::size_t>(n - 1)].lr == update(version, n).lr ? 0 : 1;
    }
    for (std::size_t i = 0; i < updated_.size(); ++i)
      count += updated_[i] == seen(version, i) ? 0 : 1;
    return count;
  }

  void fill_neighbours(int version) { neighbours_ = neighbours_of(version); }
  [[nodiscard]] int neighbour_differences(int version) const {
    return neighbours_.table == neighbours_of(version).table ? 0 : 1;
  }

  int changes = 0;
  LossState loss;

 private:
  /// Neighbour i of the class with a label is a function of the label.
  [[nodiscard]] ClassNeighbours neighbours_of(int version) const {
    ClassNeighbours all{.degree = degree_, .table = {}};
    for (std::int64_t row = 0; row < positions_.classes; ++row) {
      const std::int64_t label = positions_.label_at(row);
      for (std::int64_t i = 0; i < all.degree; ++i) {
        const std::int64_t near = (3 * label + i + version) % (positions_.classes + 1);
        all.table.push_back(near == positions_.classes
                                ? -1
                                : static_cast<std::int32_t>(positions_.position_of(near)));
      }
    }
    return all;
  }
  const std::int64_t degree_;  // ClassNeighbours::degree; 0: the job has none
  ClassNeighbours neighbours_;
  Tensor tensor(int i) {
    return {values_[static_cast<std::size_t>(i)].data(), Shape{shard_.size(), dimension_}};
  }
  [[nodiscard]] PastUpdate update(int version, int n) const {
    return {.lr = place_value(version, 9, n, 0),
            .momentum_or_number = has_second_ ? static_cast<float>(n) : 0.5f,
            .weight_decay = 0.25f};
  }
  [[nodiscard]] std::int32_t seen(int version, std::size_t i) const {
    const std::int64_t label = positions_.label_at(shard_.begin + static_cast<std::int64_t>(i));
    return static_cast<std::int32_t>(label * 7 % (version + 1));
  }
  const ClassPositions positions_;
  const RowRange shard_;
  const std::int64_t dimension_;
  const bool has_second_;
  std::vector<std::int32_t> updated_;
  UpdateHistory history_;
  std::array<std::vector<float>, 3> values_;
};

struct WorldOptions {
  std::int64_t classes = 10;
  std::int64_t sample_unit = 1;
  std::uint64_t seed = 0;
  std::int64_t dimension = 6;
  std::int64_t feature_size = 0;
  std::int64_t sub_centres = 1;
  OptimizerKind optimizer = OptimizerKind::kSgd;
  bool average = false;  ///< has averages of the backbone
  PixelScale pixels = {};
  std::int64_t neighbours = 0;  ///< ClassNeighbours::degree; 0: none
  [[nodiscard]] ClassPositions positions() const {
    return {.classes = classes, .sample_unit = sample_unit, .seed = seed};
  }
};

/// One worker of a world.
struct SmallWorker {
  SmallWorker(int rank, int world_size, const WorldOptions& o = {})
      : membership{.rank = rank, .world_size = world_size},
        options(o),
        backbone(*ops),
        optimizer(*ops, {.kind = o.optimizer}, backbone.weights.count,
                  {{.count = backbone.weights.count}}),
        head(o.positions(), o.positions().shard(rank, world_size), o.dimension, o.optimizer,
             o.neighbours) {
    if (o.average) average.emplace(*ops, backbone, 0.5);
  }

  [[nodiscard]] TrainingState state() {
    return {.ops = *ops,
            .backbone = backbone,
            .optimizer = optimizer,
            .head = head,
            .loss_scale = loss_scale,
            .average = average ? &*average : nullptr,
            .classes = options.classes,
            .network = "small",
            .feature_size = options.feature_size,
            .sub_centres = options.sub_centres,
            .pixels = options.pixels};
  }
  [[nodiscard]] nlohmann::json job() const {
    return {{"network", "small"},
            {"feature_size", options.feature_size},
            {"sub_centres", options.sub_centres},
            {"optimizer", options.optimizer == OptimizerKind::kAdamW ? "adamw" : "sgd"},
            {"image_mean", options.pixels.mean},
            {"image_std", options.pixels.std}};
  }

  /// Calls visit(expected value, element) for every number of the state.
  template <typename Visit>
  void each_number(int version, Visit visit) {
    const auto arena = [&](int tensor, const Arena& layout, float* data) {
      for (const Parameter& p : layout.parameters) {  // the gaps between them are not state
        for (std::int64_t i = p.offset; i < p.offset + p.count; ++i) {
          visit(place_value(version, tensor, 0, i), data[i]);
        }
      }
    };
    arena(1, backbone.weights, backbone.weights.flat().f32());
    arena(2, backbone.state, backbone.state.flat().f32());
    arena(3, backbone.weights, optimizer.momentum().f32());
    if (optimizer.second()) arena(4, backbone.weights, optimizer.second().f32());
    if (average) {
      arena(8, backbone.weights, average->weights().f32());
      arena(0, backbone.state, average->state().f32());
    }
    const Head::State h = head.state();
    int tensor = 5;
    for (const Tensor& t : {h.centres, h.momentum, h.second}) {
      for (std::int64_t i = 0; t && i < t.elements(); ++i) {
        const std::int64_t row =
            options.positions().label_at(head.shard().begin + i / options.dimension);
        visit(place_value(version, tensor, row, i % options.dimension), t.f32()[i]);
      }
      ++tensor;
    }
  }
  static LossState loss_state(int version) {
    return {.length_mean = version + 0.1,
            .length_deviation = version / 3.0,
            .target_cosine = 1.0 / version,
            .threshold = version / 7.0,
            .threshold_momentum = version + 0.3,
            .threshold_second = version / 9.0};
  }
  void fill(int version) {
    each_number(version, [](float value, float& element) { element = value; });
    backbone.batches_tracked = version;
    head.fill_history(version);
    head.fill_neighbours(version);
    head.loss = loss_state(version);
  }
  /// Returns how many numbers differ from those of fill(version) in any bit.
  [[nodiscard]] int differences(int version) {
    int count = (backbone.batches_tracked == version ? 0 : 1) +
                (head.loss == loss_state(version) ? 0 : 1) + head.history_differences(version) +
                head.neighbour_differences(version);
    each_number(version, [&](float value, float& element) { count += value == element ? 0 : 1; });
    return count;
  }

  const Membership membership;
  const WorldOptions options;
  std::unique_ptr<Ops> ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  SmallBackbone backbone;
  Optimizer optimizer;
  SmallHead head;
  std::optional<WeightAverage> average;
  LossScale loss_scale = LossScale::none();
};

}  // namespace pfc
