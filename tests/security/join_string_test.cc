#include "security/join_string.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

const std::string kToken(32, 'a');
const std::string kPrint(64, 'f');

TEST(JoinString, HasTokenAddressAndFingerprint) {
  for (const std::string address : {"10.0.0.1:7450", "host-a:1", "[2001:db8::7]:65535"}) {
    const JoinString join = parse_join_string(kToken + "@" + address + "#" + kPrint, "--join");
    EXPECT_EQ(join.token, kToken);
    EXPECT_EQ(join.address, address);
    EXPECT_EQ(join.fingerprint, kPrint);
    EXPECT_EQ(parse_join_string(to_text(join), "--join"), join);
  }
}

TEST(JoinString, MayBeSurroundedByWhiteSpace) {
  const JoinString join = parse_join_string("  " + kToken + "@a:1#" + kPrint + "\r\n", "file");
  EXPECT_EQ(join.address, "a:1");
}

TEST(JoinString, SaysWhichPartIsWrongAndNeverQuotesIt) {
  const auto refused = [](const std::string& text) {
    const std::string message = message_of<InputError>([&] { parse_join_string(text, "--join"); });
    EXPECT_THAT(message, AllOf(HasSubstr("--join: "), HasSubstr("TOKEN@HOST:PORT#FINGERPRINT"),
                               Not(HasSubstr("secret"))));
    return message;
  };
  EXPECT_THAT(refused(""), HasSubstr("empty"));
  EXPECT_THAT(refused("secret"), HasSubstr("no @"));
  EXPECT_THAT(refused("secret@a:1"), HasSubstr("no #"));
  EXPECT_THAT(refused("secret@a:1#" + kPrint), HasSubstr("the token"));
  EXPECT_THAT(refused(kToken + "@secret#" + kPrint), HasSubstr("HOST:PORT"));
  EXPECT_THAT(refused(kToken + "@a:0#" + kPrint), HasSubstr("HOST:PORT"));
  EXPECT_THAT(refused(kToken + "@a:65536#" + kPrint), HasSubstr("HOST:PORT"));
  EXPECT_THAT(refused(kToken + "@a\nb:1#" + kPrint), HasSubstr("HOST:PORT"));
  EXPECT_THAT(refused(kToken + "@2001:db8::7:1#" + kPrint), HasSubstr("HOST:PORT"));
  EXPECT_THAT(refused(kToken + "@a:1#secret"), HasSubstr("the fingerprint"));
  EXPECT_THAT(refused(kToken + "@a:1#" + std::string(64, 'F')), HasSubstr("the fingerprint"));
  EXPECT_THAT(refused(std::string(1 << 20, 'x')), HasSubstr("longer than"));
}

TEST(JoinString, ParsesAnyBytesWithoutACrash) {
  std::mt19937 random(7);
  const std::string good = kToken + "@[2001:db8::7]:7450#" + kPrint;
  for (int i = 0; i < 100'000; ++i) {
    std::string text = good;
    for (unsigned change = random() % 4 + 1; change > 0; --change) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, random() % 20);
      } else {
        text[at] = static_cast<char>(random());
      }
      if (text.empty()) text = "@";
    }
    try {
      const JoinString join = parse_join_string(text, "fuzz");
      EXPECT_EQ(parse_join_string(to_text(join), "fuzz"), join);
    } catch (const InputError&) {  // NOLINT(bugprone-empty-catch)
    }
  }
}

TEST(JoinString, IsRemovedFromTheEnvironment) {
  ASSERT_EQ(setenv(kJoinVariable, "x@y:1#z", 1), 0);
  EXPECT_EQ(take_join_variable(), "x@y:1#z");
  EXPECT_EQ(std::getenv(kJoinVariable), nullptr);
  EXPECT_EQ(take_join_variable(), "");
}

}  // namespace
}  // namespace pfc
