// Reads verification files that other programs wrote (PFC_TEST_DATA).
#include <gtest/gtest.h>

#include <algorithm>

#include "data/images/decode.h"
#include "model/evaluation/verification_bin.h"
#include "tests/support/test_data.h"

namespace pfc {
namespace {

class RealBins : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::test_data()) GTEST_SKIP() << "PFC_TEST_DATA is not set: no real data to read";
  }
  /// Reads a file whose images must all decode at 112 x 112.
  static VerificationSet read(const std::string& file) {
    VerificationSet set = read_verification_bin(*testing::test_data() / file);
    ImageDecoder decoder;
    std::vector<std::uint8_t> rgb(112 * 112 * 3);
    for (const auto& image : set.images) decoder.decode(image, {112, 112}, rgb);
    return set;
  }
  static long genuine(const VerificationSet& set) {
    return std::count(set.same.begin(), set.same.end(), true);
  }
};

TEST_F(RealBins, ReadsLfwFold10) {
  const VerificationSet set = read("lfw112/lfw_fold10.bin");
  EXPECT_EQ(set.name, "lfw_fold10");
  EXPECT_EQ(set.images.size(), 1200u);
  EXPECT_EQ(set.same.size(), 600u);
  EXPECT_EQ(genuine(set), 300);
}

TEST_F(RealBins, ReadsBytesOfProtocol4) {
  const VerificationSet set = read("bins/mkm_validation_bytes_protocol4.bin");
  EXPECT_EQ(set.images.size(), 1498u);
  EXPECT_EQ(genuine(set), 749);
}

TEST_F(RealBins, ReadsNumpyArraysOfProtocol3) {
  const VerificationSet set = read("bins/small_lfw_numpy_protocol3.bin");
  EXPECT_EQ(set.images.size(), 20u);
  EXPECT_EQ(genuine(set), 10);
}

}  // namespace
}  // namespace pfc
