#include "coordinator/allocation/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string host_list_error(const std::string& hosts) {
  return testing::message_of<InputError>([&] { parse_hosts(hosts); });
}

TEST(ParseHosts, KeepsTheOrderOfTheHosts) {
  EXPECT_THAT(parse_hosts("203.0.113.7:8,localhost:2,b"),
              ElementsAre(HostSpec{.name = "203.0.113.7", .slots = 8},
                          HostSpec{.name = "localhost", .slots = 2}, HostSpec{.name = "b"}));
}

TEST(ParseHosts, ReadsIpv6AddressesInBrackets) {
  EXPECT_THAT(parse_hosts("[2001:DB8::0:7]:8,[::1]"),
              ElementsAre(HostSpec{.name = "2001:db8::7", .slots = 8}, HostSpec{.name = "::1"}));
}

TEST(ParseHosts, SaysThatAnIpv6AddressNeedsBrackets) {
  EXPECT_THAT(host_list_error("2001:db8::7"),
              HasSubstr("write the IPv6 address '2001:db8::7' in brackets"));
}

TEST(ParseHosts, RefusesBracketsAroundAnythingButAnIpv6Address) {
  for (const char* hosts : {"[]", "[a]:2", "[2001:db8::7", "[10.0.0.2]", "[::1]2", "["}) {
    EXPECT_THAT(host_list_error(hosts), HasSubstr("--hosts '" + std::string(hosts) + "': "))
        << hosts;
  }
}

TEST(ParseHosts, RefusesAnEmptyList) {
  EXPECT_THAT(host_list_error(""), AllOf(HasSubstr("--hosts ''"), HasSubstr("empty")));
}

TEST(ParseHosts, RefusesAnEmptyEntry) {
  EXPECT_THAT(host_list_error("a:1,,b:1"), HasSubstr("an entry is empty"));
  EXPECT_THAT(host_list_error("a:1,"), HasSubstr("an entry is empty"));
}

TEST(ParseHosts, RefusesAMissingName) {
  EXPECT_THAT(host_list_error(":2"), HasSubstr("no host name"));
}

TEST(ParseHosts, RefusesAColonWithoutANumber) {
  EXPECT_THAT(host_list_error("a:"), HasSubstr("'a:' has no number of slots"));
}

TEST(ParseHosts, RefusesANumberOfSlotsThatIsNotPositive) {
  for (const char* hosts : {"a:0", "a:-1", "a:x", "a:2x", "a:99999999999", "a: 2", "a:1:2"}) {
    EXPECT_THAT(host_list_error(hosts), AllOf(HasSubstr(hosts), HasSubstr("not 1 to 1024")));
  }
}

TEST(ParseHosts, RejectsInvalidHostNames) {
  EXPECT_THAT(host_list_error("a b:1"), HasSubstr("not a host name or address"));
  EXPECT_THAT(host_list_error("$(reboot):1"), HasSubstr("not a host name or address"));
}

TEST(ParseHosts, RejectsUnspecifiedAndBroadcastAddresses) {
  for (const char* hosts : {"0.0.0.0:1", "255.255.255.255"}) {
    EXPECT_THAT(host_list_error(hosts), HasSubstr("cannot be the address of a host"));
  }
  EXPECT_THAT(host_list_error("-x"), HasSubstr("not a host name or address"));
}

TEST(ParseHosts, RefusesTheSameHostTwice) {
  EXPECT_THAT(host_list_error("Node:1,node:1"), HasSubstr("host 'node' is given twice"));
  EXPECT_THAT(host_list_error("203.0.113.7:1,203.0.113.7:2"),
              HasSubstr("'203.0.113.7' is given twice"));
  EXPECT_THAT(host_list_error("[::1]:1,[0::1]:2"), HasSubstr("'::1' is given twice"));
}

class HostsFile : public ::testing::Test {
 protected:
  std::vector<HostSpec> read(const std::string& text) {
    std::ofstream(folder / "hosts") << text;
    return read_hosts_file(folder / "hosts");
  }
  std::string refusal_of(const std::string& text) {
    return testing::message_of<InputError>([&] { read(text); });
  }
  TemporaryFolder folder;
};

TEST_F(HostsFile, HasOneHostPerLine) {
  EXPECT_THAT(read("a:8\n\n# the big ones\n  b slots=4 # four GPUs\n[2001:db8::7]:2\r\nc\n"),
              ElementsAre(HostSpec{.name = "a", .slots = 8}, HostSpec{.name = "b", .slots = 4},
                          HostSpec{.name = "2001:db8::7", .slots = 2}, HostSpec{.name = "c"}));
}

TEST_F(HostsFile, MayBeginWithAByteOrderMark) {
  EXPECT_THAT(read("\xef\xbb\xbf"
                   "a:8\n"),
              ElementsAre(HostSpec{.name = "a", .slots = 8}));
}

TEST_F(HostsFile, MayBeAnMpiHostFile) {
  EXPECT_THAT(read("a slots=8 max_slots=8\n"), ElementsAre(HostSpec{.name = "a", .slots = 8}));
}

TEST_F(HostsFile, AddsUpTheSlotsOfARepeatedHost) {
  EXPECT_THAT(read("a\nb:2\na\nB slots=3\na\nc\n"),
              ElementsAre(HostSpec{.name = "a", .slots = 3}, HostSpec{.name = "b", .slots = 5},
                          HostSpec{.name = "c"}));
}

TEST_F(HostsFile, MayHaveBlanksAroundTheEqualsSign) {
  EXPECT_THAT(read("a slots = 8\nb slots= 4 max-slots =9\n"),
              ElementsAre(HostSpec{.name = "a", .slots = 8}, HostSpec{.name = "b", .slots = 4}));
}

TEST_F(HostsFile, NamesAnInvalidLine) {
  EXPECT_THAT(refusal_of("a:8\nb:x\n"),
              AllOf(HasSubstr("hosts, line 2: 'b:x' has 'x' slots"), HasSubstr("one host a line")));
  EXPECT_THAT(refusal_of("a gpus=8\n"), HasSubstr("line 1: 'gpus=8' is not known"));
  EXPECT_THAT(refusal_of("a slots\n"), HasSubstr("line 1: 'slots' is not known"));
  EXPECT_THAT(refusal_of("a:2 slots=8\n"), HasSubstr("line 1: 'a:2' has two numbers of slots"));
  EXPECT_THAT(refusal_of("a:1000\nb\nA:25\n"),
              HasSubstr("line 3: host 'A' has more than 1024 slots in all its lines"));
}

TEST_F(HostsFile, IsRefusedIfItListsNoHost) {
  EXPECT_THAT(refusal_of("# nobody\n"), HasSubstr("it lists no host"));
}

TEST_F(HostsFile, IsRejectedIfItIsNotAFile) {
  EXPECT_THAT(testing::message_of<InputError>([&] { read_hosts_file(folder / "none"); }),
              HasSubstr("none"));
}

TEST(WorkersOf, IsZeroUnlessAllHostsHaveANumberOfSlots) {
  const std::vector<HostSpec> known{{.name = "a", .slots = 2}, {.name = "b", .slots = 3}};
  EXPECT_EQ(workers_of(known), 5);
  const std::vector<HostSpec> unknown{{.name = "a", .slots = 2}, {.name = "b"}};
  EXPECT_EQ(workers_of(unknown), 0);
}

}  // namespace
}  // namespace pfc
