// Tests element-wise ops, sums, dropout and memory.

#include <cmath>
#include <cstring>

#include "kernels/make_ops.h"
#include "kernels/math/masks/dropout.h"
#include "tests/kernels/on_each_device.h"

namespace pfc {
namespace {

class Elementwise : public OnEachDevice {
 protected:
  const std::vector<std::int64_t> sizes_{1,  15,   16,
                                         17, 1000, 40003};  // only the last one needs threads
};

TEST_P(Elementwise, BuffersAreZeroedAndAligned) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{9} << 20}) {
    const std::unique_ptr<Buffer> buffer = ops_->allocate(bytes);
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64, 0u);
    std::vector<std::byte> host(bytes, std::byte{1});
    ops_->copy_to_host(host.data(),
                       Tensor(buffer->data(), DType::kUInt8, {static_cast<std::int64_t>(bytes)}));
    EXPECT_EQ(host, std::vector<std::byte>(bytes));
  }
}

TEST_P(Elementwise, CopiesWriteEveryByte) {
  for (const std::int64_t n : sizes_) {
    const std::vector<float> x = random(n);
    const OwnedTensor from = tensor({n}, x), to = tensor({n});
    ops_->copy(from, to);
    EXPECT_EQ(values(to), x);
  }
}

TEST_P(Elementwise, FillAndAddAreExact) {
  for (const std::int64_t n : sizes_) {
    const std::vector<float> a = random(n), b = random(n);
    const OwnedTensor x = tensor({n}, a), y = tensor({n}, b), sum = tensor({n});
    ops_->add(x, y, sum);
    std::vector<float> expected;
    for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(a[i] + b[i]);
    EXPECT_EQ(values(sum), expected);
    ops_->add(x, y, y);  // in place
    EXPECT_EQ(values(y), expected);
    ops_->fill(x, 3.5f);
    EXPECT_EQ(values(x), std::vector<float>(a.size(), 3.5f));
  }
}

TEST_P(Elementwise, AveragesMoveTowardsTheValue) {
  for (const std::int64_t n : sizes_) {
    const std::vector<float> a = random(n), v = random(n);
    const OwnedTensor average = tensor({n}, a), value = tensor({n}, v);
    ops_->average(value, 0.25f, average);
    std::vector<double> expected;
    for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(0.75 * a[i] + 0.25 * v[i]);
    EXPECT_LT(relative_error(values(average), expected), 1e-6);
    ops_->average(value, 1.f, value);
    EXPECT_EQ(values(value), v) << "a value is its own average";
  }
}

TEST_P(Elementwise, ImagesBecomeNumbersBetweenMinusOneAndOne) {
  std::vector<std::uint8_t> bytes(3 * 7 * 5 * 3);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  bytes.back() = 255;
  const OwnedTensor images(*ops_, {3, 7, 5, 3}, DType::kUInt8);
  ops_->copy_to_device(images, bytes.data());
  const OwnedTensor y = tensor({3, 7, 5, 3});
  ops_->normalise_images(images, y);
  const std::vector<float> found = values(y);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_NEAR(found[i], bytes[i] / 127.5 - 1, 1e-7);
  }
  EXPECT_EQ(found.front(), -1.f);
  EXPECT_EQ(found.back(), 1.f);
}

TEST_P(Elementwise, BiasAndItsGradientAreExact) {
  for (const auto& [rows, n] : {std::pair{1, 1}, {5, 13}, {300, 65}, {33, 512}}) {
    const std::vector<float> x = random(rows * n), b = random(n);
    const OwnedTensor y = tensor({rows, n}, x), bias = tensor({n}, b), sums = tensor({n}, b);
    ops_->add_bias(y, bias);
    const std::vector<float> found = values(y);
    std::vector<double> expected(b.begin(), b.end());
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(found[i], x[i] + b[i % b.size()]);
      expected[i % b.size()] += static_cast<double>(found[i]);
    }
    ops_->column_sums(y, sums, true);
    EXPECT_LT(relative_error(values(sums), expected), 1e-6);
    ops_->column_sums(y, sums, false);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= static_cast<double>(b[i]);
    EXPECT_LT(relative_error(values(sums), expected), 1e-6);
  }
}

TEST_P(Elementwise, DropoutDependsOnlyOnSeedStepAndElement) {
  constexpr std::int64_t kCount = 40001;
  const DropoutOptions o{.probability = 0.4f, .seed = 7, .step = 3, .first_element = 1'000'000'007};
  const std::vector<float> x = random(kCount);
  const OwnedTensor from = tensor({kCount}, x), to = tensor({kCount});
  ops_->dropout(from, to, o);
  const std::vector<float> y = values(to);
  std::int64_t dropped = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(y[i], x[i] * dropout_factor(0.4f, 7, 3, 1'000'000'007 + i));
    dropped += y[i] == 0.f;
  }
  EXPECT_NEAR(static_cast<double>(dropped) / kCount, 0.4, 0.01);
  ops_->dropout(from, to, {.probability = 0.f});
  EXPECT_EQ(values(to), x);
}

TEST_P(Elementwise, SumOfSquaresHasFloat64Precision) {
  for (const std::int64_t n : sizes_) {
    const std::vector<float> x = random(n, 0.f, 1000.f);
    double expected = 0;
    for (const float v : x) expected += static_cast<double>(v) * static_cast<double>(v);
    EXPECT_NEAR(ops_->sum_of_squares(tensor({n}, x)) / expected, 1.0, 1e-13);
  }
}

TEST_P(Elementwise, SumOfSquaresIsBitIdenticalForAnyNumberOfThreads) {
  const std::vector<float> x = random(1'000'003);
  const double sum = ops_->sum_of_squares(tensor({1'000'003}, x));
  EXPECT_EQ(ops_->sum_of_squares(tensor({1'000'003}, x)), sum);
  const std::unique_ptr<Ops> serial = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  const double alone = serial->sum_of_squares(to_device(*serial, {1'000'003}, x));
  EXPECT_NEAR(sum, alone, ops_->on_host() ? 0 : 1e-12 * alone);
}

TEST_P(Elementwise, SumOfSquaresIsFiniteExactlyWhenEveryElementIs) {
  for (const std::int64_t n : sizes_) {
    std::vector<float> x = random(n, 0.f, 1e37f);
    EXPECT_TRUE(std::isfinite(ops_->sum_of_squares(tensor({n}, x))));
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (const auto& [bad, at] :
         {std::pair(kInfinity, std::size_t{0}), std::pair(-kInfinity, x.size() / 2),
          std::pair(std::numeric_limits<float>::quiet_NaN(), x.size() - 1)}) {
      std::vector<float> spoiled = x;
      spoiled[at] = bad;
      EXPECT_FALSE(std::isfinite(ops_->sum_of_squares(tensor({n}, spoiled))));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Elementwise, ::testing::ValuesIn(test_devices()), device_name);

}  // namespace
}  // namespace pfc
