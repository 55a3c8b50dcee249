#include "common/one_line.h"

#include <gtest/gtest.h>

#include "common/log.h"

namespace pfc {
namespace {

TEST(OneLine, KeepsPrintableText) {
  EXPECT_EQ(one_line("rank 1: caf\u00e9 \u4eba, 100 %"), "rank 1: caf\u00e9 \u4eba, 100 %");
}

TEST(OneLine, ReplacesLineEndsAndCursorMovements) {
  EXPECT_EQ(one_line("a\nb\rc\x1b[2Kd\te"), "a b c [2Kd e");
  EXPECT_EQ(one_line(std::string("a\0b", 3)), "a b");
  EXPECT_EQ(one_line("a\xc2\x85"
                     "b\xc2\x9b"
                     "c\xe2\x80\xa8"
                     "d"),
            "a b c d")
      << "a C1 control and a line separator";
}

TEST(OneLine, ReplacesChangesOfTextDirection) {
  EXPECT_EQ(one_line("\xe2\x80\xae"
                     "gnp.exe\xe2\x81\xa6"),
            " gnp.exe ");
}

TEST(OneLine, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(one_line("caf\xe9"), "caf?");
  EXPECT_EQ(one_line("\xc0\x80"), "??") << "an overlong form of NUL";
  EXPECT_EQ(one_line("\xed\xa0\x80"), "???") << "a surrogate";
  EXPECT_EQ(one_line("\xf4\x90\x80\x80"), "????") << "above U+10FFFF";
  EXPECT_EQ(one_line("\xe4\xba"), "??") << "cut";
}

TEST(OneLine, CutsALongText) {
  EXPECT_EQ(one_line(std::string(5'000, 'x')).size(), 1'000U);
  EXPECT_EQ(one_line("a\nbc", 3), "a b");
}

TEST(IsUtf8, DistinguishesTextFromOtherBytes) {
  EXPECT_TRUE(is_utf8("caf\u00e9\n"));
  EXPECT_FALSE(is_utf8("caf\xe9"));
}

TEST(MessageLine, IsOneLineForAnyText) {
  EXPECT_EQ(message_line("pfc-agent", Severity::kError, "x\npfc-coordinator: job completed", false),
            "pfc-agent: error: x pfc-coordinator: job completed");
}

}  // namespace
}  // namespace pfc
