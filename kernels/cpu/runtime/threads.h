// How CPU ops use the cores: a fixed number of parts, so that sums come out the same every time.
#pragma once

#include <cstdint>

namespace pfc {

/// Indices [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// Part `part` of `parts` of [0, n); borders are multiples of `align`. Parts may be empty.
inline Range part_of(std::int64_t n, int part, int parts, std::int64_t align = 1) {
  const std::int64_t blocks = (n + align - 1) / align;
  const auto border = [&](std::int64_t p) {
    const std::int64_t element = blocks * p / parts * align;
    return element < n ? element : n;
  };
  return {border(part), border(part + 1)};
}

/// A fixed number of threads (OpenMP's pool of the calling thread, which oneDNN uses too).
class Threads {
 public:
  explicit Threads(int count);  ///< 0: threads_of_worker(1)
  [[nodiscard]] int count() const { return count_; }

  /// Makes oneDNN, which asks OpenMP, use this many threads from the calling thread on.
  void apply() const;

  /// Calls f(part) for part = 0 .. count - 1, side by side. f must not throw.
  template <typename F>
  void each_part(const F& f) const {
    if (count_ == 1) return f(0);
    side_by_side([](const void* of, int part) { (*static_cast<const F*>(of))(part); }, &f);
  }

  /// Calls f(Range) for parts of [0, n) side by side; in one piece where a fork would cost more
  /// than it gains (`work` elements in all).
  template <typename F>
  void each_range(std::int64_t n, std::int64_t align, std::int64_t work, const F& f) const {
    if (count_ == 1 || work < kSerialWork) return f(Range{0, n});
    each_part([&](int part) {
      const Range range = part_of(n, part, count_, align);
      if (range.size() > 0) f(range);
    });
  }

 private:
  using Call = void (*)(const void* f, int part);
  void side_by_side(Call call, const void* f) const;  // fork_openmp.cc, fork_std_thread.cc

  static constexpr std::int64_t kSerialWork = 16384;  // floats: about 2 us, a fork's cost
  int count_;
};

}  // namespace pfc
