#include "model/evaluation/lfw_protocol.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace pfc {
namespace {

/// Two-dimensional unit vectors, in pairs with the given squared distances (0 .. 4).
struct Pairs {
  std::vector<float> a, b;
  std::vector<bool> same;

  void add(double squared_distance, bool genuine) {
    const double angle = 2 * std::asin(std::sqrt(squared_distance) / 2);
    a.insert(a.end(), {1.f, 0.f});
    b.insert(b.end(), {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
    same.push_back(genuine);
  }
  [[nodiscard]] VerificationResult verify(int folds = 10) const {
    return verify_pairs(a, b, 2, same, folds);
  }
  [[nodiscard]] double distance(std::size_t k) const {
    const double x = double{a[2 * k]} - double{b[2 * k]};
    const double y = double{a[2 * k + 1]} - double{b[2 * k + 1]};
    return x * x + y * y;
  }
};

/// Implements the protocol literally: every threshold against every pair of every fold.
VerificationResult verify_slowly(const Pairs& pairs, int folds) {
  const int n = static_cast<int>(pairs.same.size());
  const auto right = [&](double threshold, int k) {
    const auto i = static_cast<std::size_t>(k);
    return (pairs.distance(i) < threshold) == pairs.same[i];
  };
  VerificationResult result;
  std::vector<double> accuracies;
  int begin = 0;
  for (int f = 0; f < folds; ++f) {
    const int end = begin + n / folds + (f < n % folds ? 1 : 0);
    int best = -1;
    double best_threshold = 0;
    for (int t = 0; t < 400; ++t) {
      int hits = 0;
      for (int k = 0; k < n; ++k) hits += (k < begin || k >= end) && right(t * 0.01, k);
      if (hits > best) {
        best = hits;
        best_threshold = t * 0.01;
      }
    }
    int hits = 0;
    for (int k = begin; k < end; ++k) hits += right(best_threshold, k);
    accuracies.push_back(static_cast<double>(hits) / (end - begin));
    result.threshold += best_threshold / folds;
    begin = end;
  }
  for (const double x : accuracies) result.accuracy += x / folds;
  for (const double x : accuracies) result.deviation += std::pow(x - result.accuracy, 2) / folds;
  result.deviation = std::sqrt(result.deviation);
  return result;
}

TEST(LfwProtocol, AgreesWithALiteralImplementationOfTheProtocol) {
  std::mt19937 random(8);
  for (const int n : {10, 13, 97, 600}) {
    Pairs pairs;
    std::normal_distribution<double> genuine(1.1, 0.35), impostor(1.7, 0.35);
    for (int k = 0; k < n; ++k) {
      const bool same = random() % 2 == 0;
      pairs.add(std::clamp(same ? genuine(random) : impostor(random), 0.0, 4.0), same);
    }
    for (const int folds : {2, 3, 10}) {
      const VerificationResult fast = pairs.verify(folds);
      const VerificationResult slow = verify_slowly(pairs, folds);
      EXPECT_NEAR(fast.accuracy, slow.accuracy, 1e-12) << n << " pairs, " << folds << " folds";
      EXPECT_NEAR(fast.deviation, slow.deviation, 1e-12);
      EXPECT_NEAR(fast.threshold, slow.threshold, 1e-12);
      EXPECT_EQ(fast.pairs, n);
    }
  }
}

TEST(LfwProtocol, IsPerfectIfOneThresholdSeparatesThePairs) {
  Pairs pairs;
  for (int k = 0; k < 100; ++k) pairs.add(k % 2 == 0 ? 0.505 : 2.0, k % 2 == 0);
  const VerificationResult result = pairs.verify();
  EXPECT_EQ(result.accuracy, 1);
  EXPECT_EQ(result.deviation, 0);
  EXPECT_NEAR(result.threshold, 0.51, 1e-9) << "the smallest of equally good thresholds";
}

TEST(LfwProtocol, ChoosesAFoldsThresholdOnTheOtherFolds) {
  // Only the threshold of the first fold itself would classify the first fold's pairs correctly.
  Pairs pairs;
  for (int k = 0; k < 10; ++k) pairs.add(k % 2 == 0 ? 3.0 : 3.5, k % 2 == 0);
  for (int k = 0; k < 10; ++k) pairs.add(k % 2 == 0 ? 0.5 : 2.0, k % 2 == 0);
  const VerificationResult result = pairs.verify(2);
  EXPECT_NEAR(result.accuracy, 0.5, 1e-12);
}

TEST(LfwProtocol, JudgesIdenticalAndOppositeEmbeddings) {
  Pairs pairs;
  for (int k = 0; k < 20; ++k) pairs.add(k % 2 == 0 ? 0.0 : 4.0, k % 2 == 0);
  EXPECT_EQ(pairs.verify().accuracy, 1);
  for (int k = 1; k < 40; k += 2) pairs.b[static_cast<std::size_t>(k)] = std::nanf("");
  EXPECT_EQ(pairs.verify().accuracy, 0.5) << "an embedding of NaN matches no other";
}

TEST(LfwProtocol, UsesFewerFoldsForFewPairs) {
  Pairs pairs;
  for (int k = 0; k < 3; ++k) pairs.add(k == 0 ? 1.5 : 0.5, k != 0);
  EXPECT_NEAR(pairs.verify(10).accuracy, verify_slowly(pairs, 3).accuracy, 1e-12);
}

}  // namespace
}  // namespace pfc
