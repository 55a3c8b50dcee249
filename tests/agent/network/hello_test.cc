#include "agent/network/hello.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

const std::string kHelloSecret = "a secret";

TEST(NetworkHello, NamesTheIntendedHost) {
  const std::string hello = make_hello(kHelloSecret, {.to_host = 70'000, .transfer = true});
  ASSERT_EQ(hello.size(), kHelloBytes);
  const auto read = read_hello(kHelloSecret, hello);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->to_host, 70'000);
  EXPECT_TRUE(read->transfer);
}

TEST(NetworkHello, IsRejectedWithAnyFlippedBit) {
  const std::string hello = make_hello(kHelloSecret, {.to_host = 1});
  for (std::size_t bit = 0; bit < 8 * hello.size(); ++bit) {
    std::string other = hello;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(read_hello(kHelloSecret, other)) << "bit " << bit;
  }
}

TEST(NetworkHello, IsRejectedWithoutTheSecret) {
  EXPECT_FALSE(read_hello("another", make_hello(kHelloSecret, {.to_host = 1})));
  EXPECT_FALSE(read_hello(kHelloSecret, ""));
  EXPECT_FALSE(read_hello(kHelloSecret, std::string(kHelloBytes, '\0')));
}

TEST(NetworkHello, DiffersEachTimeAndSoDoesItsReply) {
  const std::string a = make_hello(kHelloSecret, {.to_host = 1}),
                    b = make_hello(kHelloSecret, {.to_host = 1});
  EXPECT_NE(a, b);
  EXPECT_NE(answer_to(kHelloSecret, a), answer_to(kHelloSecret, b));
  EXPECT_NE(answer_to(kHelloSecret, a), answer_to("another", a));
  EXPECT_EQ(answer_to(kHelloSecret, a).size(), kAnswerBytes);
}

}  // namespace
}  // namespace pfc
