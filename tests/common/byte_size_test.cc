#include "common/byte_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using pfc::testing::message_of;
using ::testing::HasSubstr;

TEST(ByteSize, AcceptsDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_byte_size("80GB", "x"), 80'000'000'000u);
  EXPECT_EQ(parse_byte_size("80GiB", "x"), std::uint64_t{80} << 30);
  EXPECT_EQ(parse_byte_size("512MB", "x"), 512'000'000u);
  EXPECT_EQ(parse_byte_size("1.5 KiB", "x"), 1536u);
  EXPECT_EQ(parse_byte_size("2TB", "x"), 2'000'000'000'000u);
  EXPECT_EQ(parse_byte_size("1000000", "x"), 1'000'000u);
  EXPECT_EQ(parse_byte_size("4096B", "x"), 4096u);
}

TEST(ByteSize, RequiresAUnitForSmallNumbers) {
  EXPECT_EQ(message_of<InputError>([] { (void)parse_byte_size("80", "--device-memory"); }),
            "--device-memory: found \"80\" without a unit; did you mean 80GB?");
}

TEST(ByteSize, RejectsInvalidTextAndNamesTheOption) {
  for (const char* text : {"", "GB", "80G", "80gb", "-1GB", "0GB", "1e3GB", "80GB!", "nan", "inf",
                           "99999999999TB", "80 GB 5"}) {
    const std::string message =
        message_of<InputError>([&] { (void)parse_byte_size(text, "--device-memory"); });
    EXPECT_THAT(message, HasSubstr("--device-memory: found \"" + std::string(text) + "\""));
    EXPECT_THAT(message, HasSubstr("80GB"));
  }
}

TEST(ByteSize, IsShownWithThreeDigits) {
  EXPECT_EQ(byte_size_text(0), "0 bytes");
  EXPECT_EQ(byte_size_text(1), "1 byte");
  EXPECT_EQ(byte_size_text(1023), "1023 bytes");
  EXPECT_EQ(byte_size_text(1024), "1.00 KiB");
  EXPECT_EQ(byte_size_text(1000 * 1024), "0.98 MiB");
  EXPECT_EQ(byte_size_text(std::uint64_t{12'345} << 10), "12.1 MiB");
  EXPECT_EQ(byte_size_text(std::uint64_t{512} << 20), "512 MiB");
  EXPECT_EQ(byte_size_text((std::uint64_t{3} << 30) / 2), "1.50 GiB");
  EXPECT_EQ(byte_size_text(std::uint64_t{80'000'000'000}), "74.5 GiB");
}

}  // namespace
}  // namespace pfc
