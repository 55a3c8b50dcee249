#include "coordinator/program/announcements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/text_output.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Announcements : public ::testing::Test {
 protected:
  std::string of_hosts(const std::vector<HostSpec>& hosts) {
    testing::TextOutput output;
    Terminal terminal(output, false);
    tell_other_hosts(terminal, hosts, gate, "10.0.0.1:7450", "");
    return output.err;
  }

  TemporaryFolder folder;
  Gate gate{{.state_dir = folder / "state"}};
};

TEST_F(Announcements, WarnOfAForeignNameThatResolvesToLoopback) {
  EXPECT_THAT(of_hosts({{.name = "h2", .local = true, .loopback = "127.0.1.1"}}),
              AllOf(HasSubstr("warning: host h2: its name resolves to 127.0.1.1 on this machine"),
                    HasSubstr("correct /etc/hosts"), Not(HasSubstr("run there"))));
  EXPECT_THAT(of_hosts({{.name = "localhost", .local = true}}), IsEmpty());
}

TEST_F(Announcements, GiveTheJoinCommandAlsoIfNoNameServerAnswers) {
  const auto is_command = HasSubstr("run there: pfc-agent --join '");
  EXPECT_THAT(of_hosts({{.name = "b", .answered = false}}),
              AllOf(HasSubstr("warning: host b: no name server has answered for its name"),
                    is_command, HasSubstr("--host b")));
  EXPECT_THAT(of_hosts({{.name = "b"}}), AllOf(is_command, Not(HasSubstr("name server"))));
  EXPECT_THAT(of_hosts({{.name = "b", .resolves = false}}),
              AllOf(HasSubstr("\"b\" does not resolve"), Not(is_command)));
}

}  // namespace
}  // namespace pfc
