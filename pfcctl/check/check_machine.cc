#include "pfcctl/check/check_machine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "comm/make_comm.h"
#include "comm/memory_store.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/files/fd.h"
#include "data/images/decode.h"
#include "data/images/jpeg_encoder.h"
#include "kernels/make_ops.h"

namespace pfc {
namespace {

/// Runs `what` as a trial. The text that it returns becomes the detail. If it throws, the trial has
/// failed, and the exception's message becomes the detail.
Trial attempt(const std::string& name, const std::function<std::string()>& what) {
  try {
    return {.name = name, .ok = true, .detail = what()};
  } catch (const std::exception& e) {
    return {.name = name, .ok = false, .detail = e.what()};
  }
}

void expect(bool ok, const std::string& otherwise) {
  if (!ok) throw std::runtime_error(otherwise);
}

/// A tensor in device memory, initialised from host numbers.
struct DeviceArray {
  std::unique_ptr<Buffer> buffer;
  Tensor tensor;

  DeviceArray(Ops& ops, Shape shape, const std::vector<float>& values)
      : buffer(ops.allocate(values.size() * sizeof(float))),
        tensor(reinterpret_cast<float*>(buffer->data()), shape) {
    ops.copy_to_device(tensor, values.data());
  }
};

/// Returns small integers. Sums of them are exact in any order, so a convolution must be exact.
std::vector<float> small_integers(std::int64_t n, std::int64_t modulus) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto mixed = static_cast<std::int64_t>((i * 2654435761u) >> 7);
    values[i] = static_cast<float>(mixed % modulus - modulus / 2);
  }
  return values;
}

/// Computes one output of a 3x3 convolution with padding 1 from the definition.
float convolved(const Conv2dShape& s, const std::vector<float>& x, const std::vector<float>& w,
                std::int64_t n, std::int64_t row, std::int64_t column, std::int64_t out) {
  double sum = 0;
  for (std::int64_t ky = 0; ky < s.kernel; ++ky) {
    for (std::int64_t kx = 0; kx < s.kernel; ++kx) {
      const std::int64_t iy = row + ky - s.pad, ix = column + kx - s.pad;
      if (iy < 0 || ix < 0 || iy >= s.in_h || ix >= s.in_w) continue;
      for (std::int64_t c = 0; c < s.in_c; ++c) {
        sum += x[static_cast<std::size_t>(((n * s.in_h + iy) * s.in_w + ix) * s.in_c + c)] *
               w[static_cast<std::size_t>(((out * s.kernel + ky) * s.kernel + kx) * s.in_c + c)];
      }
    }
  }
  return static_cast<float>(sum);
}

std::string try_convolution(Ops& ops) {
  const Conv2dShape s{
      .batch = 2, .in_h = 14, .in_w = 14, .in_c = 32, .out_c = 32, .kernel = 3, .pad = 1};
  const std::vector<float> x = small_integers(s.x_shape().elements(), 9);
  const std::vector<float> w = small_integers(s.w_shape().elements(), 7);
  std::vector<float> y(static_cast<std::size_t>(s.y_shape().elements()));
  const DeviceArray dx(ops, s.x_shape(), x), dw(ops, s.w_shape(), w), dy(ops, s.y_shape(), y);
  const std::unique_ptr<Conv2d> conv = ops.conv2d(s);
  conv->forward(dx.tensor, dw.tensor, dy.tensor);
  ops.copy_to_host(y.data(), dy.tensor);
  for (std::size_t i = 0; i < y.size(); i += 37) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t pixel = at / s.out_c;
    const float exact =
        convolved(s, x, w, pixel / 14 / 14, pixel / 14 % 14, pixel % 14, at % s.out_c);
    expect(y[i] == exact,
           "wrong result: " + std::to_string(y[i]) + " instead of " + std::to_string(exact));
  }

  const std::int64_t rows = s.batch * s.out_h() * s.out_w();
  const std::vector<float> ones(static_cast<std::size_t>(s.out_c), 1), zeros(ones.size(), 0);
  const Shape channels{s.out_c};
  const DeviceArray mean(ops, channels, zeros), variance(ops, channels, zeros);
  const DeviceArray gamma(ops, channels, ones), beta(ops, channels, zeros);
  const Tensor flat(dy.tensor.f32(), {rows, s.out_c});
  const std::unique_ptr<BatchNorm> norm = ops.batch_norm({.rows = rows, .channels = s.out_c});
  norm->statistics(flat, mean.tensor, variance.tensor);
  norm->forward({.x = flat,
                 .mean = mean.tensor,
                 .variance = variance.tensor,
                 .gamma = gamma.tensor,
                 .beta = beta.tensor,
                 .slope = {},
                 .residual = {},
                 .y = flat,
                 .y_mean = {},
                 .y_variance = {}});
  const double mean_square = ops.sum_of_squares(flat) / static_cast<double>(y.size());
  expect(std::abs(mean_square - 1) < 1e-3,
         "batch norm gives variance " + std::to_string(mean_square) + " instead of 1");
  return ops.description();
}

std::string try_jpeg() {
  constexpr int kSide = 112;
  std::vector<std::uint8_t> rgb;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      for (const int v : {x + y, 2 * y, 224 - x - y}) rgb.push_back(static_cast<std::uint8_t>(v));
    }
  }
  const std::vector<std::byte> jpeg = encode_jpeg(rgb, kSide, kSide, 95);
  std::vector<std::uint8_t> again(rgb.size());
  ImageDecoder decoder;
  constexpr int kImages = 200;
  const TimePoint start = Clock::now();
  for (int i = 0; i < kImages; ++i) decoder.decode(jpeg, {.height = kSide, .width = kSide}, again);
  const double seconds = seconds_since(start);
  int worst = 0;
  for (std::size_t i = 0; i < rgb.size(); ++i) worst = std::max(worst, std::abs(rgb[i] - again[i]));
  expect(worst < 24, "a decoded pixel differs by " + std::to_string(worst) +
                         " from the original, expected less than 24 of 255; check libjpeg-turbo");
  return std::to_string(static_cast<int>(kImages / seconds)) +
         " images of 112 x 112 a second on one core";
}

std::string try_collectives() {
  constexpr int kWorkers = 2;
  MemoryStore store;
  std::array<float, kWorkers> values{3, 4};
  std::array<std::string, kWorkers> failures, descriptions;
  const auto work = [&](std::size_t rank) {
    try {
      CommOptions options{.membership = {.rank = static_cast<int>(rank), .world_size = kWorkers}};
      options.name = "check";
      options.connect_timeout = options.timeout = std::chrono::seconds(10);
      const std::unique_ptr<Comm> comm = make_host_comm(options, &store);
      comm->all_reduce_sum(Tensor(&values[rank], {1}));
      comm->barrier();
      descriptions[rank] = comm->description();
    } catch (const std::exception& e) {
      failures[rank] = e.what();
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  for (const std::string& failure : failures) expect(failure.empty(), failure);
  expect(values[0] == 7 && values[1] == 7, "3 + 4 gave " + std::to_string(values[0]));
  return "two workers summed over " + descriptions[0];
}

std::string try_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::uint64_t kib = 0;
  while (file >> key >> kib && std::getline(file, unit) && key != "MemAvailable:") {
  }
  expect(key == "MemAvailable:", "cannot read MemAvailable from /proc/meminfo");
  std::string found = std::to_string(kib >> 10) + " MiB available";
  // About what mbf needs at batch 32. With less memory, it swaps or is killed in the first step.
  constexpr std::uint64_t kLeastMib = 1024;
  expect((kib >> 10) >= kLeastMib, found + "; the smallest job needs 1024 MiB");
  return found;
}

std::string try_temporary_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "pfc-check-XXXXXX").string();
  const Fd file(mkstemp(path.data()));
  expect(file >= 0, "cannot write to " + std::filesystem::path(path).parent_path().string() +
                        "; set TMPDIR to a writable folder");
  std::filesystem::remove(path);
  return std::filesystem::path(path).parent_path().string() + " is writable";
}

}  // namespace

std::vector<Trial> try_machine() {
  return {attempt("convolution and batch norm", [] { return try_convolution(*make_ops({})); }),
          attempt("JPEG encoding and decoding", try_jpeg),
          attempt("two workers over loopback", try_collectives), attempt("free memory", try_memory),
          attempt("temporary files", try_temporary_folder)};
}

}  // namespace pfc
