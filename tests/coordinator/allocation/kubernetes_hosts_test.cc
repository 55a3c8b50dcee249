#include "coordinator/allocation/kubernetes_hosts.h"

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
using testing::variables_of;

Environment job() {
  return {{"PFC_KUBERNETES_PODS", "2"},
          {"PFC_KUBERNETES_JOB", "pfc-agent"},
          {"PFC_KUBERNETES_SERVICE", "pfc-agents"}};
}

std::string refusal(const Environment& environment) {
  return testing::message_of<InputError>([&] { kubernetes_hosts(variables_of(environment)); });
}

TEST(KubernetesHosts, AreThePodsOfTheIndexedJob) {
  EXPECT_THAT(kubernetes_hosts(variables_of(job())),
              ElementsAre(HostSpec{.name = "pfc-agent-0.pfc-agents"},
                          HostSpec{.name = "pfc-agent-1.pfc-agents"}));
}

TEST(KubernetesHosts, HaveTheSlotsThatAreGiven) {
  Environment environment = job();
  environment["PFC_KUBERNETES_SLOTS"] = "8";
  EXPECT_EQ(kubernetes_hosts(variables_of(environment)).back().slots, 8);
}

TEST(KubernetesHosts, NameTheVariableThatIsMissing) {
  for (const auto& [name, value] : job()) {
    Environment environment = job();
    environment.erase(name);
    EXPECT_THAT(refusal(environment),
                AllOf(HasSubstr(name + " is not set"), HasSubstr("expected")));
  }
}

TEST(KubernetesHosts, RefuseNumbersThatCannotBe) {
  for (const char* name : {"PFC_KUBERNETES_PODS", "PFC_KUBERNETES_SLOTS"}) {
    for (const char* value : {"0", "-1", "x", "2x", "99999999999"}) {
      Environment environment = job();
      environment[name] = value;
      EXPECT_THAT(refusal(environment), AllOf(HasSubstr(std::string(name) + " '" + value + "'"),
                                              HasSubstr("expected a number from 1")));
    }
  }
}

TEST(KubernetesHosts, RefuseNamesThatMakeNoHostName) {
  Environment environment = job();
  environment["PFC_KUBERNETES_SERVICE"] = "a b";
  EXPECT_THAT(refusal(environment), HasSubstr("PFC_KUBERNETES_SERVICE 'a b'"));
}

}  // namespace
}  // namespace pfc
