#include "worker/data/reading/read_plan.h"

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
    // In the order of the file, for disks on which jumps cost.
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
    const std::int64_t epoch = batches_.epoch_of(batch);
    const std::int64_t first_row = epoch * batches_.batches_per_epoch();
    const std::int64_t window = order_.window_of(batch - first_row);
    const std::int64_t begin = first_row + window * order_.rows_of_window();
    const std::int64_t end =
        std::min(begin + order_.rows_of_window(), first_row + batches_.batches_per_epoch());
    const std::int64_t lane = batches_.rank * batches_.batch_size;
    return {.end_batch = end,
            .images = order_.images_of(epoch, window, {lane, lane + batches_.batch_size})};
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
