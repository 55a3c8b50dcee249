#include "data/reading/read_plan.h"

#include <algorithm>

namespace pfc {

ReadPlan plan_random_reads(const ImageOrder& order, const BatchPlan& batches) {
  return [&order, batches](std::int64_t batch) {
    ReadUnit unit{.end_batch = batch + 1, .images = {}};
    const std::int64_t epoch = batches.epoch_of(batch);
    const std::int64_t first = batches.first_position(batch);
    for (std::int64_t i = 0; i < batches.batch_size; ++i) {
      const std::int64_t image = order.at(epoch, first + i);
      unit.images.push_back({image, image + 1});
    }
    // Sorted in file order, for disks with slow seeks.
    std::ranges::sort(unit.images, {}, &ImageRange::first);
    return unit;
  };
}

ReadPlan plan_sequential_reads(const SequentialOrder& order, const BatchPlan& batches) {
  return [&order, batches](std::int64_t batch) -> ReadUnit {
    const DataPlace place = batches.place_of(batch);
    const std::int64_t row = place.position / batches.global_batch();
    const std::int64_t window = order.window_of(row);
    const std::int64_t rows_left = std::min((window + 1) * order.rows_of_window() - row,
                                            batches.batches_to_end_of_epoch(batch));
    const std::int64_t lane = batches.rank * batches.batch_size;
    return {.end_batch = batch + rows_left,
            .images = order.images_of(place.epoch, window, {lane, lane + batches.batch_size})};
  };
}

}  // namespace pfc
