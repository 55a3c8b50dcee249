#include "coordinator/allocation/mpi_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/error.h"
#include "tests/coordinator/allocation/allocation_fixture.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Environment;
using ::testing::HasSubstr;
using testing::variables_of;

class MpiHosts : public ::testing::Test {
 protected:
  std::string file(const std::string& text) const {
    std::ofstream(folder / "hosts") << text;
    return (folder / "hosts").string();
  }
  static std::vector<HostSpec> hosts(const Environment& environment) {
    return mpi_hosts(variables_of(environment));
  }
  static std::string refusal(const Environment& environment) {
    return testing::message_of<InputError>([&] { hosts(environment); });
  }

  const HostSpec a{.name = "a", .slots = 2}, b{.name = "b", .slots = 1};
  TemporaryFolder folder;
};

TEST_F(MpiHosts, AreReadFromLsf) {
  EXPECT_THAT(hosts({{"LSB_MCPU_HOSTS", "a 2 b 1 "}}), ElementsAre(a, b));
  EXPECT_THAT(hosts({{"LSB_HOSTS", "a b a"}}), ElementsAre(a, b));
}

TEST_F(MpiHosts, HaveASlotForEachLineOfAPbsNodeFile) {
  EXPECT_THAT(hosts({{"PBS_NODEFILE", file("a\na\nb\n")}}), ElementsAre(a, b));
}

TEST_F(MpiHosts, AreReadFromGridEngine) {
  EXPECT_THAT(hosts({{"PE_HOSTFILE", file("a 2 all.q@a UNDEFINED\nb 1 all.q@b UNDEFINED\n")}}),
              ElementsAre(a, b));
}

TEST_F(MpiHosts, AreReadFromTheDefaultHostFile) {
  for (const char* name : {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"}) {
    EXPECT_THAT(hosts({{name, file("a slots=2\nb slots=1\n")}}), ElementsAre(a, b)) << name;
  }
}

TEST_F(MpiHosts, RejectMalformedLists) {
  EXPECT_THAT(refusal({{"LSB_MCPU_HOSTS", "a 2 b"}}),
              AllOf(HasSubstr("LSB_MCPU_HOSTS 'a 2 b'"), HasSubstr("'b' has no number of slots")));
  EXPECT_THAT(refusal({{"LSB_MCPU_HOSTS", "a x"}}), HasSubstr("'x' is not a number of slots"));
  EXPECT_THAT(refusal({{"LSB_HOSTS", "-a"}}), HasSubstr("'-a' is not a host name"));
  EXPECT_THAT(refusal({{"PBS_NODEFILE", file("\n")}}), HasSubstr("it lists no host"));
  EXPECT_THAT(refusal({{"PE_HOSTFILE", file("a 2\nb\n")}}), HasSubstr("hosts', line 2: "));
  EXPECT_THAT(refusal({{"PBS_NODEFILE", (folder / "none").string()}}), HasSubstr("cannot open"));
}

TEST_F(MpiHosts, AreLimitedInNumber) {
  std::string lines;
  for (int host = 0; host < 20'000; ++host) lines += "n" + std::to_string(host) + "\n";
  EXPECT_THAT(refusal({{"PBS_NODEFILE", file(lines)}}), HasSubstr("more than 16384 hosts"));
  std::string slots;
  for (int slot = 0; slot < 2'000; ++slot) slots += "n\n";
  EXPECT_THAT(refusal({{"PBS_NODEFILE", file(slots)}}), HasSubstr("slots, not 1 to 1024"));
}

TEST_F(MpiHosts, NameTheVariablesThatWereTried) {
  EXPECT_THAT(refusal({}), AllOf(HasSubstr("PBS_NODEFILE"), HasSubstr("LSB_MCPU_HOSTS"),
                                 HasSubstr("--hosts-file")));
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_SIZE", "2"}}), HasSubstr("mpirun passes no list of "
                                                                  "hosts"));
}

}  // namespace
}  // namespace pfc
