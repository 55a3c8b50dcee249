#include "worker/initial/mean_centres.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "common/clock.h"
#include "common/counted.h"
#include "model/evaluation/evaluation_sets.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

/// Sums embeddings in the rows of the centres. If the centres are not float32, the rows of the
/// momentum hold the rounding errors: the momentum is still zero.
class CentreSums {
 public:
  CentreSums(Ops& ops, Head& head)
      : ops_(ops),
        head_(head),
        state_(head.state()),
        begun_(static_cast<std::size_t>(state_.centres.shape[0])),
        sum_(static_cast<std::size_t>(state_.centres.shape[1])),
        stored_(sum_.size()) {}

  void add(std::int64_t row, std::span<const float> embedding) {
    const auto pinned = pin(row);
    if (begun_[static_cast<std::size_t>(row)]) {
      read(row);
    } else {
      std::ranges::fill(sum_, 0.f);
    }
    begun_[static_cast<std::size_t>(row)] = true;
    std::ranges::transform(sum_, embedding, sum_.begin(), std::plus<>());
    write(row);
  }

  void normalise_rows() {
    for (std::int64_t row = 0; row < std::ssize(begun_); ++row) {
      if (!begun_[static_cast<std::size_t>(row)]) continue;
      const auto pinned = pin(row);
      read(row);
      normalise(sum_);
      copy_rows_to_device(ops_, row_range(state_.centres, row, 1), sum_.data());
      std::ranges::fill(stored_, 0.f);
      if (rounds()) copy_rows_to_device(ops_, row_range(state_.momentum, row, 1), stored_.data());
    }
  }

 private:
  [[nodiscard]] bool rounds() const { return state_.centres.dtype != DType::kFloat32; }

  [[nodiscard]] std::unique_ptr<PinnedPages> pin(std::int64_t row) {
    const std::int64_t c = head_.shard().begin + row;
    return head_.pin({c, c + 1}, PageUse::kChange);
  }

  void read(std::int64_t row) {
    copy_rows_to_host(ops_, sum_.data(), row_range(state_.centres, row, 1));
    if (!rounds()) return;
    copy_rows_to_host(ops_, stored_.data(), row_range(state_.momentum, row, 1));
    std::ranges::transform(sum_, stored_, sum_.begin(), std::plus<>());
  }

  void write(std::int64_t row) {
    const ScaledRows centre = row_range(state_.centres, row, 1);
    copy_rows_to_device(ops_, centre, sum_.data());
    if (!rounds()) return;
    copy_rows_to_host(ops_, stored_.data(), centre);
    std::ranges::transform(sum_, stored_, stored_.begin(), std::minus<>());
    copy_rows_to_device(ops_, row_range(state_.momentum, row, 1), stored_.data());
  }

  Ops& ops_;
  Head& head_;
  const Head::State state_;
  std::vector<bool> begun_;
  std::vector<float> sum_, stored_;  // [D]
};

// The label of damaged images. Also pads the last batches, and images with fewer labels.
constexpr std::int64_t kNoLabel = -1;

/// The batches of all workers: embeddings of length 1, and labels.
struct GatheredBatch {
  GatheredBatch(std::int64_t batch, std::int64_t dimension, int workers,
                std::int64_t labels_per_image)
      : d(static_cast<std::size_t>(dimension)),
        l(static_cast<std::size_t>(labels_per_image)),
        own(static_cast<std::size_t>(batch) * d),
        all(own.size() * static_cast<std::size_t>(workers)),
        own_labels(static_cast<std::size_t>(batch) * l),
        all_labels(own_labels.size() * static_cast<std::size_t>(workers)) {}

  void gather(Comm& comm) {
    const auto floats = [](std::vector<float>& v) { return Tensor(v.data(), {std::ssize(v)}); };
    const auto bytes = [](std::vector<std::int64_t>& v) {
      return Tensor(v.data(), DType::kUInt8,
                    {std::ssize(v) * static_cast<std::int64_t>(sizeof(std::int64_t))});
    };
    comm.all_gather(floats(own), floats(all));
    comm.all_gather(bytes(own_labels), bytes(all_labels));
  }

  std::size_t d, l;                                  // D, labels_per_image
  std::vector<float> own, all;                       // [B, D], [W * B, D]
  std::vector<std::int64_t> own_labels, all_labels;  // [B, l], [W * B, l]
};

}  // namespace

std::string set_mean_centres(const MeanCentres& m) {
  const TimePoint start = Clock::now();
  const std::int64_t images = m.dataset.info().images, batch = m.options.batch;
  const std::int64_t together = batch * m.comm.size();
  const std::int64_t rounds = (images + together - 1) / together;
  const RowRange shard = m.head.shard();
  GatheredBatch g(batch, m.options.embedding_size, m.comm.size(),
                  m.dataset.info().labels_per_image);
  CentreSums sums(m.ops, m.head);
  ImageBuffer storage;
  std::int64_t used = 0;

  // Index in the data set of this worker's image i. The workers take batches in turn.
  const auto image_of = [&](std::int64_t i) {
    return i / batch * together + m.comm.rank() * batch + i % batch;
  };
  const ReadImage read_image = read_images_of(m.dataset, {m.options.height, m.options.width});
  const auto read = [&](std::int64_t i, std::span<std::uint8_t> rgb) {
    if (image_of(i) < images) return read_image(image_of(i), rgb);
    std::ranges::fill(rgb, std::uint8_t{0});
  };
  const auto add_round = [&](std::int64_t round) {
    g.gather(m.comm);
    for (std::size_t i = 0; i < g.all_labels.size(); ++i) {
      const std::int64_t label = g.all_labels[i];
      if (label == kNoLabel) continue;
      if (i % g.l == 0) ++used;
      const std::int64_t position = m.head.positions().position_of(label);
      if (!shard.contains(position)) continue;
      const std::int64_t row = position - shard.begin;
      const bool kept = !m.keep.empty() && m.keep[static_cast<std::size_t>(row)];
      if (!kept) sums.add(row, std::span(g.all).subspan(i / g.l * g.d, g.d));
    }
    if (m.doing) {
      m.doing(fmt::format("embedding images for the class centres: {} of {}",
                          std::min(images, (round + 1) * together), images));
    }
  };
  embed_images(rounds * batch, read, m.embed, m.options,
               [&](std::int64_t i, const EmbeddedImage& embedded) {
                 const auto place = static_cast<std::size_t>(i % batch);
                 const auto row = std::span(g.own).subspan(place * g.d, g.d);
                 std::ranges::copy(embedded.plain, row.begin());
                 const bool whole = image_of(i) < images && !embedded.damage && normalise(row);
                 const auto labels = std::span(g.own_labels).subspan(place * g.l, g.l);
                 std::ranges::fill(labels, kNoLabel);
                 if (whole) {
                   labels[0] = m.dataset.label(image_of(i), storage);
                   m.dataset.other_labels(image_of(i), labels.subspan(1));
                 }
                 if (i % batch == batch - 1) add_round(i / batch);
               });
  sums.normalise_rows();
  m.head.state_changed();
  return fmt::format("class centres from the mean embeddings of {} of {} in {:.1f} s", used,
                     counted(images, "image"), seconds_since(start));
}

EmbedOptions mean_centres_options(const JobConfig& job, std::int64_t height, std::int64_t width) {
  return {.batch = job.batch_size,
          .height = height,
          .width = width,
          .embedding_size = job.embedding_size,
          .flip = false,
          .threads = static_cast<int>(job.num_workers)};
}

std::size_t mean_centres_bytes(int world_size, const EmbedOptions& o,
                               std::int64_t labels_per_image) {
  const auto rows = static_cast<std::size_t>(o.batch * (world_size + 1));
  return embed_images_bytes(o) +
         rows * (static_cast<std::size_t>(o.embedding_size) * sizeof(float) +
                 static_cast<std::size_t>(labels_per_image) * sizeof(std::int64_t));
}

}  // namespace pfc
