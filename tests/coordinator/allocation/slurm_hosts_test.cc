#include "coordinator/allocation/slurm_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/coordinator/allocation/allocation_fixture.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Environment;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::variables_of;

std::vector<std::string> expand(const std::string& list) {
  return expand_slurm_nodes("NODES", list);
}

std::string node_list_error(const std::string& list) {
  return testing::message_of<InputError>([&] { expand(list); });
}

std::vector<int> slots(const Environment& environment) {
  std::vector<int> all;
  for (const HostSpec& host : slurm_hosts(variables_of(environment))) all.push_back(host.slots);
  return all;
}

TEST(ExpandSlurmNodes, ReadsNamesAndRanges) {
  EXPECT_THAT(expand("login"), ElementsAre("login"));
  EXPECT_THAT(expand("n[1-3]"), ElementsAre("n1", "n2", "n3"));
  EXPECT_THAT(expand("n[3,1,7-8],b,c[2]"), ElementsAre("n3", "n1", "n7", "n8", "b", "c2"));
}

TEST(ExpandSlurmNodes, KeepsLeadingZeros) {
  EXPECT_THAT(expand("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(expand("n[001,99-100]"), ElementsAre("n001", "n99", "n100"));
  EXPECT_THAT(expand("n[1234567890-1234567891]"), ElementsAre("n1234567890", "n1234567891"));
}

TEST(ExpandSlurmNodes, ReadsSeveralBracketsInAName) {
  EXPECT_THAT(expand("r[0-1]n[1-2]-ib"), ElementsAre("r0n1-ib", "r0n2-ib", "r1n1-ib", "r1n2-ib"));
}

TEST(ExpandSlurmNodes, RejectsMalformedLists) {
  for (const char* list :
       {"", "a,", ",a", "a,,b", "a[", "a[1", "a]", "a[]", "a[1-]", "a[-1]", "a[1,]", "a[,1]",
        "a[x]", "a[1-2-3]", "a[2-1]", "a[[1-2]]", "a[+1]", "a[99999999999999999999]"}) {
    EXPECT_THAT(node_list_error(list), AllOf(HasSubstr("NODES '" + std::string(list) + "': "),
                                             HasSubstr("expected names with ranges")))
        << list;
  }
}

TEST(ExpandSlurmNodes, AcceptsTheMaximumNumberOfHosts) {
  EXPECT_THAT(expand("n[1-16384]"), SizeIs(16'384));
  for (const char* list : {"n[0-16384]", "n[0-999999999]", "a,n[1-16384]", "a[1-200]b[1-200]",
                           "a[1-9]b[1-9]c[1-9]d[1-9]e[1-9]f[1-9]g[1-9]h[1-9]"}) {
    EXPECT_THAT(node_list_error(list), HasSubstr("more than 16384 hosts")) << list;
  }
}

TEST(ExpandSlurmNodes, RefusesNamesThatAreTooLong) {
  EXPECT_THAT(node_list_error("n[1-16384]" + std::string(300, 'x')),
              HasSubstr("a name is too long"));
}

TEST(ExpandSlurmCounts, ReadsRepetitions) {
  EXPECT_THAT(expand_slurm_counts("TASKS", "2(x3),1"), ElementsAre(2, 2, 2, 1));
  for (const char* list : {"", "2(x", "2(x)", "2(x3", "(x3)", "2,", ",2", "2(x99999)", "2(y3)"}) {
    EXPECT_THAT(testing::message_of<InputError>([&] { expand_slurm_counts("TASKS", list); }),
                HasSubstr("TASKS '" + std::string(list) + "': "))
        << list;
  }
}

TEST(SlurmHosts, HaveAsManySlotsAsTasks) {
  EXPECT_THAT(slots({{"SLURM_JOB_NODELIST", "n[1-4]"}, {"SLURM_TASKS_PER_NODE", "2(x3),1"}}),
              ElementsAre(2, 2, 2, 1));
}

TEST(SlurmHosts, HaveAsManySlotsAsGpusIfTheJobHasGpus) {
  const Environment job{{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "1(x2)"}};
  for (const auto& [gpus, expected] :
       {std::pair{"8", 8}, std::pair{"h100:8", 8}, std::pair{"h100:4,a100:2", 6}}) {
    Environment with_gpus = job;
    with_gpus["SLURM_GPUS_PER_NODE"] = gpus;
    EXPECT_THAT(slots(with_gpus), ElementsAre(expected, expected)) << gpus;
  }
}

TEST(SlurmHosts, LetAgentsCountTheirGpusIfSlurmGivesOnlyTheGpusOfThisHost) {
  EXPECT_THAT(slots({{"SLURM_JOB_NODELIST", "n[1-2]"},
                     {"SLURM_TASKS_PER_NODE", "1(x2)"},
                     {"SLURM_GPUS_ON_NODE", "4"}}),
              ElementsAre(0, 0));
}

TEST(SlurmHosts, RefuseSlotCountsForAnotherNumberOfHosts) {
  EXPECT_THAT(
      testing::message_of<InputError>([] {
        slots({{"SLURM_JOB_NODELIST", "n[1-4]"}, {"SLURM_TASKS_PER_NODE", "1"}});
      }),
      AllOf(HasSubstr("SLURM_TASKS_PER_NODE '1': it is for 1 host, SLURM_JOB_NODELIST has 4"),
            HasSubstr("not under srun")));
}

TEST(SlurmHosts, NameTheMissingVariableOutsideAJob) {
  EXPECT_THAT(testing::message_of<InputError>([] { slots({}); }),
              AllOf(HasSubstr("SLURM_JOB_NODELIST is not set"), HasSubstr("sbatch")));
}

TEST(SlurmHosts, RejectInvalidAndRepeatedHosts) {
  for (const auto& [nodes, problem] : {std::pair{"a b", "'a b' is not a host name"},
                                       std::pair{"a,a", "host 'a' is given twice"}}) {
    EXPECT_THAT(
        testing::message_of<InputError>([&, list = nodes] {
          slots({{"SLURM_JOB_NODELIST", list}});
        }),
        AllOf(HasSubstr("SLURM_JOB_NODELIST '" + std::string(nodes) + "'"), HasSubstr(problem)));
  }
}

TEST(SlurmHosts, RefuseAHeterogeneousJob) {
  EXPECT_THAT(testing::message_of<InputError>([] {
                slots({{"SLURM_JOB_NODELIST", "a"}, {"SLURM_HET_SIZE", "2"}});
              }),
              HasSubstr("SLURM_HET_SIZE '2'"));
}

}  // namespace
}  // namespace pfc
