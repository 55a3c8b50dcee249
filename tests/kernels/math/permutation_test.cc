#include "kernels/math/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace pfc {
namespace {

TEST(Permutation, HasEveryPlaceOnceAndAnInverse) {
  for (const std::uint64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 100, 997, 65'536, 1'000'003}) {
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1} << 63 | 7}) {
      const Permutation permutation(seed, n);
      std::vector<bool> taken(n);
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t place = permutation.place_of(i);
        ASSERT_LT(place, n);
        ASSERT_FALSE(taken[place]) << n << " " << i;
        taken[place] = true;
        ASSERT_EQ(permutation.element_at(place), i) << n;
      }
    }
  }
}

TEST(Permutation, HasThePlacesThatCheckpointsRelyOn) {
  const auto places = [](std::uint64_t seed, std::uint64_t n) {
    const Permutation permutation(seed, n);
    std::vector<std::uint64_t> first;
    for (std::uint64_t i = 0; i < 6; ++i) first.push_back(permutation.place_of(i));
    return first;
  };
  using Places = std::vector<std::uint64_t>;
  EXPECT_EQ(places(0, 17), (Places{8, 14, 2, 7, 1, 3}));
  EXPECT_EQ(places(0, 97), (Places{81, 84, 94, 38, 32, 93}));
  EXPECT_EQ(places(1, 1025), (Places{324, 613, 646, 99, 223, 929}));
  EXPECT_EQ(places(1, (std::uint64_t{1} << 40) + 1),
            (Places{869'972'277'356, 558'202'747'993, 450'250'412'736, 290'442'748'747,
                    1'023'590'353'475, 211'107'708'468}));
}

TEST(Permutation, HasAnInverseForLargeTables) {
  for (const std::uint64_t n : {std::uint64_t{100'000'000}, (std::uint64_t{1} << 40) + 1}) {
    const Permutation permutation(3, n);
    for (std::uint64_t k = 0; k < 10'000; ++k) {
      const std::uint64_t i = k < 100 ? n - 1 - k : k * 2'654'435'761u % n;
      const std::uint64_t place = permutation.place_of(i);
      ASSERT_LT(place, n);
      ASSERT_EQ(permutation.element_at(place), i);
      ASSERT_EQ(permutation.place_of(permutation.element_at(i)), i);
    }
  }
}

// The elements of a block of eight places, which sampling draws together, come from all of the
// table: the distances of neighbours have the mean and deviation of independent numbers.
TEST(Permutation, ScattersTheElementsOfABlock) {
  constexpr std::uint64_t kElements = 1'000'000;
  const Permutation permutation(3, kElements);
  double sum = 0, squares = 0;
  constexpr int kPairs = 100'000;
  for (std::uint64_t place = 0; place < kPairs; ++place) {
    const auto a = static_cast<double>(permutation.element_at(place));
    const auto b = static_cast<double>(permutation.element_at(place + 1));
    const double distance = std::abs(a - b) / static_cast<double>(kElements);
    sum += distance;
    squares += distance * distance;
  }
  const double mean = sum / kPairs;
  const double deviation = std::sqrt(1.0 / 18 / kPairs);
  EXPECT_NEAR(mean, 1.0 / 3, 5 * deviation);
  EXPECT_NEAR(squares / kPairs - mean * mean, 1.0 / 18, 0.001);
}

}  // namespace
}  // namespace pfc
