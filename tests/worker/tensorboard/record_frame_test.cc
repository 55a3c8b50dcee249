#include "worker/tensorboard/record_frame.h"

#include <gtest/gtest.h>

#include <string>

namespace pfc {
namespace {

TEST(MaskedCrc32c, IsTheRotatedCrcPlusAConstant) {
  const std::uint32_t rotated = 0xe3069283U >> 15 | 0xe3069283U << 17;
  EXPECT_EQ(masked_crc32c("123456789"), rotated + 0xa282ead8U);
}

TEST(FrameOf, ContainsLengthDataAndTheirCrcs) {
  const std::string data = "an event";
  const std::string frame = frame_of(data);
  ASSERT_EQ(frame.size(), kFrameHeaderBytes + data.size() + kFrameFooterBytes);
  EXPECT_EQ(frame.substr(0, 8), std::string("\x08\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(data_bytes_of(frame), 8U);
  EXPECT_EQ(frame.substr(kFrameHeaderBytes, data.size()), data);
  EXPECT_TRUE(matches(data, frame.substr(kFrameHeaderBytes + data.size())));
}

TEST(FrameOf, DetectsEveryChangedBit) {
  const std::string data = "an event";
  const std::string frame = frame_of(data);
  for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    std::string changed = frame;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    const bool intact = data_bytes_of(changed) == data.size() &&
                        matches(std::string_view(changed).substr(kFrameHeaderBytes, data.size()),
                                std::string_view(changed).substr(kFrameHeaderBytes + data.size()));
    EXPECT_FALSE(intact) << "bit " << bit;
  }
}

}  // namespace
}  // namespace pfc
