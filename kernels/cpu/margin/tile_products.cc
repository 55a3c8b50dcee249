#include "kernels/cpu/margin/tile_products.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <vector>

#include "common/error.h"
#include "kernels/cpu/runtime/aligned_memory.h"
#include "kernels/cpu/runtime/dnnl_call.h"
#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc {
namespace {

class FloatTileProducts : public TileProducts {
 public:
  [[nodiscard]] DType row_type() const override { return DType::kFloat32; }

  void set_embeddings(const float* unit, std::int64_t samples, std::int64_t dimension,
                      int /*parts*/) override {
    n_ = samples;
    d_ = dimension;
    unit_ = unit;
    transposed_.resize(static_cast<std::size_t>(n_ * d_));
    constexpr std::int64_t kBlock = 16;  // floats in a cache line
    for (std::int64_t first = 0; first < d_; first += kBlock) {
      const std::int64_t last = std::min(first + kBlock, d_);
      for (std::int64_t i = 0; i < n_; ++i) {
        for (std::int64_t k = first; k < last; ++k) transposed_[index(k, i)] = unit[i * d_ + k];
      }
    }
  }

  bool forward(int /*part*/, const void* rows, std::int64_t classes, float* products) override {
    return multiply('N', classes, n_, d_, static_cast<const float*>(rows), transposed_.data(), 0.f,
                    products);
  }

  bool backward(int /*part*/, float* g, const void* rows, std::int64_t classes, float* gradients,
                float* d_unit) override {
    return (d_unit == nullptr ||
            multiply('T', n_, d_, classes, g, static_cast<const float*>(rows), 1.f, d_unit)) &&
           (gradients == nullptr || multiply('N', classes, d_, n_, g, unit_, 0.f, gradients));
  }

 private:
  // c [m, n] = op(a) [m, k] * b [k, n] + beta * c. Within a team, oneDNN uses the calling thread
  // only.
  static bool multiply(char transpose_a, std::int64_t m, std::int64_t n, std::int64_t k,
                       const float* a, const float* b, float beta, float* c) {
    const std::int64_t lda = transpose_a == 'T' ? m : k;
    return dnnl_sgemm(transpose_a, 'N', m, n, k, 1.f, a, lda, b, n, beta, c, n) == dnnl_success;
  }

  [[nodiscard]] std::size_t index(std::int64_t k, std::int64_t i) const {
    return static_cast<std::size_t>(k * n_ + i);
  }

  std::int64_t n_ = 0, d_ = 0;
  const float* unit_ = nullptr;    // [N, D]
  std::vector<float> transposed_;  // [D, N]: sgemm is faster with it than with transpose 'T'
};

using Layout = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

/// oneDNN creates a primitive for as many threads as OpenMP would use at that moment. These
/// primitives run inside a team, so they are created for one thread.
class PlanForOneThread {
 public:
  PlanForOneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~PlanForOneThread() { omp_set_num_threads(before_); }
  PlanForOneThread(const PlanForOneThread&) = delete;
  PlanForOneThread& operator=(const PlanForOneThread&) = delete;

 private:
  int before_;
};

/// dst [m, n] (+)= src [m, k] * weights [k, n]. dst is float32; src and weights are bfloat16.
dnnl::matmul::primitive_desc plan(const dnnl::engine& engine, std::int64_t m, std::int64_t k,
                                  std::int64_t n, Layout src, Layout weights, bool accumulate) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.f);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::desc product({{m, k}, Type::bf16, src}, {{k, n}, Type::bf16, weights},
                                   {{m, n}, Type::f32, Layout::ab});
  return {product, attributes, engine};
}

DnnlCall call_of(DnnlContext& context, const dnnl::matmul::primitive_desc& p) {
  return {context,
          dnnl::matmul(p),
          {{DNNL_ARG_SRC, p.src_desc()},
           {DNNL_ARG_WEIGHTS, p.weights_desc()},
           {DNNL_ARG_DST, p.dst_desc()},
           {DNNL_ARG_SCRATCHPAD, p.scratchpad_desc()}}};
}

class BFloat16TileProducts : public TileProducts {
 public:
  [[nodiscard]] DType row_type() const override { return DType::kBFloat16; }

  void set_embeddings(const float* unit, std::int64_t samples, std::int64_t dimension,
                      int parts) override {
    if (samples != n_ || dimension != d_ || parts != static_cast<int>(parts_.size())) {
      make_plans(samples, dimension, parts);
    }
    vector_.to_bfloat16(unit, rounded_.data(), n_ * d_);
    pack_right_->execute({{DNNL_ARG_FROM, rounded_.data()}, {DNNL_ARG_TO, right_.data()}});
    pack_left_->execute({{DNNL_ARG_FROM, rounded_.data()}, {DNNL_ARG_TO, left_.data()}});
  }

  bool forward(int part, const void* rows, std::int64_t /*classes*/, float* products) override {
    Part& p = parts_[static_cast<std::size_t>(part)];
    return run(p, p.product, rows, right_.data(), products);
  }

  bool backward(int part, float* g, const void* rows, std::int64_t classes, float* gradients,
                float* d_unit) override {
    Part& p = parts_[static_cast<std::size_t>(part)];
    std::fill(g + classes * n_, g + kTileClasses * n_, 0.f);
    vector_.to_bfloat16(g, p.factors.data(), kTileClasses * n_);
    return (d_unit == nullptr || run(p, p.embeddings, p.factors.data(), rows, d_unit)) &&
           (gradients == nullptr || run(p, p.gradients, p.factors.data(), left_.data(), gradients));
  }

 private:
  /// The calls of one thread. Each thread needs its own, since a call sets the addresses in
  /// oneDNN's memory objects.
  struct Part {
    DnnlCall product, gradients, embeddings;
    std::vector<BFloat16> factors;  // [tile, N]
    AlignedMemory scratch;
  };

  void make_plans(std::int64_t samples, std::int64_t dimension, int parts);

  static bool run(Part& p, DnnlCall& call, const void* src, const void* weights, float* dst) {
    try {
      call.execute({{DNNL_ARG_SRC, const_cast<void*>(src)},  // only read; oneDNN takes no const
                    {DNNL_ARG_WEIGHTS, const_cast<void*>(weights)},
                    {DNNL_ARG_DST, dst},
                    {DNNL_ARG_SCRATCHPAD, p.scratch.data()}});
      return true;
    } catch (const DeviceError&) {
      return false;
    }
  }

  const VectorKernels& vector_ = best_vector_kernels();
  std::vector<std::unique_ptr<DnnlContext>> contexts_;  // by part: threads do not share a stream
  std::int64_t n_ = 0, d_ = 0;
  std::vector<BFloat16> rounded_;  // [N, D]
  AlignedMemory right_, left_;     // transposed unit, and unit, in oneDNN's layout
  std::unique_ptr<DnnlCall> pack_right_, pack_left_;
  std::vector<Part> parts_;
};

void BFloat16TileProducts::make_plans(std::int64_t samples, std::int64_t dimension, int parts) {
  n_ = samples;
  d_ = dimension;
  rounded_.resize(static_cast<std::size_t>(n_ * d_));
  parts_.clear();
  contexts_.clear();
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  for (int i = 0; i < parts; ++i) contexts_.push_back(std::make_unique<DnnlContext>(engine));
  const PlanForOneThread one_thread;
  const auto product = plan(engine, kTileClasses, d_, n_, Layout::ab, Layout::any, false);
  const auto gradients = plan(engine, kTileClasses, n_, d_, Layout::ab, Layout::any, false);
  const auto embeddings = plan(engine, n_, kTileClasses, d_, Layout::ba, Layout::ab, true);

  const auto pack = [&](Layout layout, const dnnl::memory::dims& shape,
                        const dnnl::memory::desc& to) {
    const dnnl::memory::desc from(shape, Type::bf16, layout);
    const dnnl::reorder::primitive_desc p(engine, from, engine, to);
    return std::make_unique<DnnlCall>(
        *contexts_[0], dnnl::reorder(p),
        std::vector<DnnlArgument>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  };
  pack_right_ = pack(Layout::ba, {d_, n_}, product.weights_desc());
  pack_left_ = pack(Layout::ab, {n_, d_}, gradients.weights_desc());
  right_ = AlignedMemory(product.weights_desc().get_size());
  left_ = AlignedMemory(gradients.weights_desc().get_size());

  const std::size_t scratch =
      std::max({product.scratchpad_desc().get_size(), gradients.scratchpad_desc().get_size(),
                embeddings.scratchpad_desc().get_size()});
  for (const auto& context : contexts_) {
    parts_.push_back({.product = call_of(*context, product),
                      .gradients = call_of(*context, gradients),
                      .embeddings = call_of(*context, embeddings),
                      .factors = std::vector<BFloat16>(static_cast<std::size_t>(kTileClasses * n_)),
                      .scratch = AlignedMemory(scratch)});
  }
}

}  // namespace

std::unique_ptr<TileProducts> make_float_tile_products() {
  return std::make_unique<FloatTileProducts>();
}

// The arrays of FloatTileProducts::set_embeddings() and BFloat16TileProducts::make_plans().
std::int64_t tile_products_bytes(bool bfloat16, std::int64_t samples, std::int64_t dimension,
                                 int parts) {
  constexpr std::int64_t kHalf = sizeof(BFloat16);
  if (!bfloat16) return samples * dimension * static_cast<std::int64_t>(sizeof(float));
  return 3 * samples * dimension * kHalf + parts * kTileClasses * samples * kHalf;
}

bool cpu_has_bfloat16() { return __builtin_cpu_supports("avx512bf16") != 0; }

std::unique_ptr<TileProducts> make_bfloat16_tile_products() {
  if (!cpu_has_bfloat16()) {
    throw InputError(
        "precision: found one whose products are of bf16 numbers, but this CPU has no instructions "
        "for them (avx512_bf16), so that they would be no faster: set \"precision\": \"fp32\"");
  }
  return std::make_unique<BFloat16TileProducts>();
}

}  // namespace pfc
