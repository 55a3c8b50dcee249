#include "coordinator/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::string& hosts) {
  return testing::message_of<InputError>([&] { parse_hosts(hosts); });
}

TEST(Hosts, AreReadInTheOrderGiven) {
  const auto hosts = parse_hosts("203.0.113.7:8,localhost:2,203.0.113.5:1");
  ASSERT_EQ(hosts.size(), 3U);
  EXPECT_EQ(hosts[0], (HostSpec{.name = "203.0.113.7", .slots = 8, .local = false}));
  EXPECT_EQ(hosts[1], (HostSpec{.name = "localhost", .slots = 2, .local = true}));
  EXPECT_EQ(hosts[2], (HostSpec{.name = "203.0.113.5", .slots = 1, .local = false}));
}

TEST(Hosts, WithoutANumberHaveAsManySlotsAsGpus) {
  const auto hosts = parse_hosts("localhost,203.0.113.5:1");
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[0], (HostSpec{.name = "localhost", .slots = 0, .local = true}));
}

TEST(Hosts, AtALoopbackAddressAreThisMachine) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3"}) {
    EXPECT_TRUE(parse_hosts(host).front().local) << host;
  }
  EXPECT_FALSE(parse_hosts("203.0.113.7").front().local);
}

TEST(Hosts, WhoseNameHasNoAddressAreMarked) {
  EXPECT_FALSE(parse_hosts("no-such-host.invalid").front().resolves);
  EXPECT_TRUE(parse_hosts("localhost").front().resolves);
  EXPECT_TRUE(parse_hosts("203.0.113.7").front().resolves);
}

TEST(ParseHosts, RefusesAnEmptyList) {
  EXPECT_THAT(refusal(""), AllOf(HasSubstr("--hosts ''"), HasSubstr("empty")));
}

TEST(ParseHosts, RefusesAnEmptyEntry) {
  EXPECT_THAT(refusal("a:1,,b:1"), HasSubstr("an entry is empty"));
  EXPECT_THAT(refusal("a:1,"), HasSubstr("an entry is empty"));
}

TEST(ParseHosts, RefusesAMissingName) { EXPECT_THAT(refusal(":2"), HasSubstr("no host name")); }

TEST(ParseHosts, RefusesAColonWithoutANumber) {
  EXPECT_THAT(refusal("a:"), HasSubstr("'a:' has no number of slots"));
}

TEST(ParseHosts, RefusesANumberOfSlotsThatIsNotPositive) {
  for (const char* hosts : {"a:0", "a:-1", "a:x", "a:2x", "a:99999999999", "a: 2"}) {
    EXPECT_THAT(refusal(hosts), AllOf(HasSubstr(hosts), HasSubstr("not 1 to 1024")));
  }
}

TEST(ParseHosts, RefusesANameThatNoHostCanHave) {
  EXPECT_THAT(refusal("a b:1"), HasSubstr("no host name or IPv4 address"));
  EXPECT_THAT(refusal("$(reboot):1"), HasSubstr("no host name or IPv4 address"));
}

TEST(ParseHosts, RefusesTheSameHostTwice) {
  EXPECT_THAT(refusal("203.0.113.7:1,203.0.113.7:2"), HasSubstr("'203.0.113.7' is given twice"));
  EXPECT_THAT(refusal("localhost:1,127.0.0.1:2"), HasSubstr("both this machine"));
}

TEST(WorkersOf, IsKnownWhereAllHostsHaveANumber) {
  const std::vector<HostSpec> known{{.name = "a", .slots = 2}, {.name = "b", .slots = 3}};
  EXPECT_EQ(workers_of(known), 5);
  const std::vector<HostSpec> unknown{{.name = "a", .slots = 2}, {.name = "b"}};
  EXPECT_EQ(workers_of(unknown), 0);
}

}  // namespace
}  // namespace pfc
