#include "data/reading/read_plan.h"

#include <algorithm>

namespace pfc {

namespace {

class RandomReads final : public ReadPlan {
 public:
  RandomReads(const ImageOrder& order, const BatchPlan& batches)
      : order_(order), batches_(batches) {}

  [[nodiscard]] ReadUnit unit_with(std::int64_t batch) const override {
    ReadUnit unit{.end_batch = batch + 1, .images = {}};
    const std::int64_t epoch = batches_.epoch_of(batch);
    const std::int64_t first = batches_.first_position(batch);
    for (std::int64_t i = 0; i < batches_.batch_size; ++i) {
      const std::int64_t image = order_.at(epoch, first + i);
      unit.images.push_back({image, image + 1});
    }
    // In file order, for disks with slow seeks.
    std::ranges::sort(unit.images, {}, &ImageRange::first);
    return unit;
  }

 private:
  const ImageOrder& order_;
  const BatchPlan batches_;
};

class SequentialReads final : public ReadPlan {
 public:
  SequentialReads(const SequentialOrder& order, const BatchPlan& batches)
      : order_(order), batches_(batches) {}

  [[nodiscard]] ReadUnit unit_with(std::int64_t batch) const override {
    const DataPlace place = batches_.place_of(batch);
    const std::int64_t row = place.position / batches_.global_batch();
    const std::int64_t window = order_.window_of(row);
    const std::int64_t rows_left = std::min((window + 1) * order_.rows_of_window() - row,
                                            batches_.batches_to_end_of_epoch(batch));
    const std::int64_t lane = batches_.rank * batches_.batch_size;
    return {.end_batch = batch + rows_left,
            .images = order_.images_of(place.epoch, window, {lane, lane + batches_.batch_size})};
  }

 private:
  const SequentialOrder& order_;
  const BatchPlan batches_;
};

}  // namespace

std::unique_ptr<ReadPlan> plan_random_reads(const ImageOrder& order, const BatchPlan& batches) {
  return std::make_unique<RandomReads>(order, batches);
}

std::unique_ptr<ReadPlan> plan_sequential_reads(const SequentialOrder& order,
                                                const BatchPlan& batches) {
  return std::make_unique<SequentialReads>(order, batches);
}

}  // namespace pfc
