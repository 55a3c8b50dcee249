#include "kernels/cpu/margin/teacher_logits.h"

#include <algorithm>
#include <cstring>

namespace pfc {
namespace {

std::unique_ptr<TileProducts> products_for(const MarginSoftmaxOptions& o,
                                           const VectorKernels& kernels) {
  return o.bf16_products ? make_bfloat16_tile_products() : make_float_tile_products(kernels);
}

std::size_t number_bytes(const MarginSoftmaxOptions& o) {
  return size_of(o.bf16_products ? DType::kBFloat16 : DType::kFloat32);
}

}  // namespace

TeacherLogits::TeacherLogits(const MarginSoftmaxOptions& options, const VectorKernels& kernels)
    : options_(options), kernels_(kernels), dimension_(options.distillation.embedding_size) {}

/// Calls f(array, elements) for each array. Used to allocate and to count, so both agree.
template <typename F>
void TeacherLogits::each_array(std::size_t samples, int threads, const F& f) {
  const auto d = static_cast<std::size_t>(dimension_);
  const std::size_t row =
      static_cast<std::size_t>(tile_row_stride(dimension_)) * number_bytes(options_);
  f(unit_, samples * d);
  for (auto* array : {&inverse_norms_, &network_factor_, &teacher_factor_}) f(*array, samples);
  f(all_, samples);
  parts_.resize(static_cast<std::size_t>(threads));
  for (Part& part : parts_) {
    f(part.rows, kTileRows * row);
    f(part.cosines, kTileRows * samples);
    f(part.tile_sums, kDistilledSums * samples);
    f(part.along, std::size_t{kTileRows});
    f(part.sums, kDistilledSums * samples);
  }
}

void TeacherLogits::begin(CpuOps& ops, const Tensor& embeddings, const Tensor& centres,
                          std::int64_t first_class) {
  samples_ = embeddings.shape[0];
  centres_ = centres;
  first_class_ = first_class;
  each_array(static_cast<std::size_t>(samples_), ops.threads().count(),
             [](auto& array, std::size_t elements) { array.resize(elements); });
  ops.normalise_rows(embeddings, Tensor(unit_.data(), embeddings.shape),
                     Tensor(inverse_norms_.data(), {samples_}));
  if (!products_) products_ = products_for(options_, kernels_);
  products_->set_embeddings(unit_.data(), samples_, dimension_, ops.threads().count());
}

void TeacherLogits::begin_forward(int part) {
  std::ranges::fill(parts_[static_cast<std::size_t>(part)].sums, 0.0);
}

// Copies only whole rows of the table. The padding at the end of each row stays zero, and unused
// rows of the tile stay finite.
void TeacherLogits::find_cosines(int part, const Tile& tile) {
  Part& p = parts_[static_cast<std::size_t>(part)];
  const std::size_t row = static_cast<std::size_t>(dimension_) * number_bytes(options_);
  const std::size_t stride =
      static_cast<std::size_t>(tile_row_stride(dimension_)) * number_bytes(options_);
  const auto* const table = static_cast<const std::byte*>(centres_.data);
  for (std::size_t j = 0; j < tile.classes.size(); ++j) {
    const auto from = static_cast<std::size_t>(tile.classes[j] - first_class_);
    std::memcpy(p.rows.data() + j * stride, table + from * row, row);
  }
  PrefetchList none;
  p.failed |=
      !products_->forward(part, p.rows.data(), std::ssize(tile.classes), p.cosines.data(), none);
}

DistilledTile TeacherLogits::describe(const Tile& tile) const {
  return {.classes = std::ssize(tile.classes),
          .samples = samples_,
          .inverse_norm = tile.inverse_norms,
          .scale = static_cast<float>(options_.scale / options_.distillation.temperature),
          .network_factor = network_factor_.data(),
          .teacher_factor = teacher_factor_.data()};
}

void TeacherLogits::forward(int part, const Tile& tile) {
  find_cosines(part, tile);
  Part& p = parts_[static_cast<std::size_t>(part)];
  kernels_.distilled_sums(describe(tile), tile.products, p.cosines.data(), p.tile_sums.data());
  std::ranges::transform(p.sums, p.tile_sums, p.sums.begin(),
                         [](double sum, float more) { return sum + double{more}; });
}

DistilledSums TeacherLogits::sums(std::int64_t sample) const {
  const auto i = static_cast<std::size_t>(sample), n = static_cast<std::size_t>(samples_);
  DistilledSums all;
  for (const Part& part : parts_) {
    all.network += part.sums[i];
    all.teacher += part.sums[n + i];
    all.difference += part.sums[2 * n + i];
  }
  return all;
}

double TeacherLogits::combine(const float* sums) {
  double loss = 0;
  for (std::int64_t i = 0; i < samples_; ++i) {
    DistilledSums& all = all_[static_cast<std::size_t>(i)];
    all = {.network = double{sums[i]},
           .teacher = double{sums[samples_ + i]},
           .difference = double{sums[2 * samples_ + i]}};
    loss += distilled_loss(all, options_.distillation.temperature);
  }
  return loss / static_cast<double>(samples_);
}

void TeacherLogits::set_gradient_scale(double gradient_scale) {
  const double factor =
      distilled_factor(options_.distillation, options_.scale, gradient_scale, samples_);
  for (std::size_t i = 0; i < all_.size(); ++i) {
    network_factor_[i] = static_cast<float>(factor / all_[i].network);
    teacher_factor_[i] = static_cast<float>(factor / all_[i].teacher);
  }
}

void TeacherLogits::backward(int part, const Tile& tile) {
  find_cosines(part, tile);
  Part& p = parts_[static_cast<std::size_t>(part)];
  kernels_.distilled_gradients(describe(tile), tile.products, p.cosines.data(), p.along.data());
}

void TeacherLogits::add_gradients(int part, std::int64_t classes, float* gradients,
                                  float* along) const {
  const Part& p = parts_[static_cast<std::size_t>(part)];
  kernels_.floats.add(gradients, p.cosines.data(), gradients, classes * samples_);
  for (std::int64_t j = 0; j < classes; ++j) along[j] += p.along[static_cast<std::size_t>(j)];
}

std::int64_t TeacherLogits::bytes(const MarginSoftmaxOptions& options, std::int64_t samples,
                                  int threads) {
  if (!options.distillation.on()) return 0;
  TeacherLogits counted(options, best_vector_kernels());
  std::size_t sum = 0;
  counted.each_array(
      static_cast<std::size_t>(samples), threads,
      [&](const auto& array, std::size_t elements) { sum += elements * sizeof(array[0]); });
  return static_cast<std::int64_t>(sum) + tile_products_bytes(options.bf16_products, samples,
                                                              options.distillation.embedding_size,
                                                              threads);
}

}  // namespace pfc
