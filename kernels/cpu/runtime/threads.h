// Divides CPU work between threads, into a fixed number of parts, so sums are reproducible.
#pragma once

#include <cstdint>

namespace pfc {

/// Indices [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// Floats in a cache line. Only one thread should write to a line.
inline constexpr std::int64_t kFloatsOfLine = 16;

/// Returns part number `part` of [0, n), divided into `parts` parts. Borders are multiples of
/// `align`. Parts may be empty.
inline Range part_of(std::int64_t n, int part, int parts, std::int64_t align = 1) {
  const std::int64_t blocks = (n + align - 1) / align;
  const auto border = [&](std::int64_t p) {
    const std::int64_t element = blocks * p / parts * align;
    return element < n ? element : n;
  };
  return {border(part), border(part + 1)};
}

/// A fixed number of threads: the OpenMP pool of the calling thread, which oneDNN uses too.
class Threads {
 public:
  explicit Threads(int count);  ///< 0: threads_of_worker(1) in common/machine/cores.h
  [[nodiscard]] int count() const { return count_; }

  /// Makes oneDNN calls of the calling thread use this many threads.
  void apply() const;

  /// Calls f(part) for part = 0 to count() - 1, in parallel. REQUIRES: f does not throw.
  template <typename F>
  void each_part(const F& f) const {
    if (count_ == 1) return f(0);
    side_by_side([](const void* of, int part) { (*static_cast<const F*>(of))(part); }, &f);
  }

  /// Calls f(Range) for parts of [0, n), in parallel. `work` is the number of elements that all
  /// calls process together. If `work` is small, calls f once for the whole range, because starting
  /// the threads would take longer. REQUIRES: f does not throw.
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

  // In floats. Processing so many takes about 2 us, which is as long as starting the threads.
  static constexpr std::int64_t kSerialWork = 16384;
  int count_;
};

}  // namespace pfc
