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

Environment kubernetes_job() {
  return {{"PFC_KUBERNETES_PODS", "2"},
          {"PFC_KUBERNETES_JOB", "pfc-agent"},
          {"PFC_KUBERNETES_SERVICE", "pfc-agents"}};
}

std::string kubernetes_error(const Environment& environment) {
  return testing::message_of<InputError>([&] { kubernetes_hosts(variables_of(environment)); });
}

TEST(KubernetesHosts, AreThePodsOfTheIndexedJob) {
  EXPECT_THAT(kubernetes_hosts(variables_of(kubernetes_job())),
              ElementsAre(HostSpec{.name = "pfc-agent-0.pfc-agents"},
                          HostSpec{.name = "pfc-agent-1.pfc-agents"}));
}

TEST(KubernetesHosts, HaveTheRequestedNumberOfSlots) {
  Environment environment = kubernetes_job();
  environment["PFC_KUBERNETES_SLOTS"] = "8";
  EXPECT_EQ(kubernetes_hosts(variables_of(environment)).back().slots, 8);
}

TEST(KubernetesHosts, NameTheVariableThatIsMissing) {
  for (const auto& [name, value] : kubernetes_job()) {
    Environment environment = kubernetes_job();
    environment.erase(name);
    EXPECT_THAT(kubernetes_error(environment),
                AllOf(HasSubstr(name + " is not set"), HasSubstr("expected")));
  }
}

TEST(KubernetesHosts, RejectImpossibleNumbers) {
  for (const char* name : {"PFC_KUBERNETES_PODS", "PFC_KUBERNETES_SLOTS"}) {
    for (const char* value : {"0", "-1", "x", "2x", "99999999999"}) {
      Environment environment = kubernetes_job();
      environment[name] = value;
      EXPECT_THAT(kubernetes_error(environment),
                  AllOf(HasSubstr(std::string(name) + " '" + value + "'"),
                        HasSubstr("expected a number from 1")));
    }
  }
}

TEST(KubernetesHosts, RejectNamesThatFormAnInvalidHostName) {
  Environment environment = kubernetes_job();
  environment["PFC_KUBERNETES_SERVICE"] = "a b";
  EXPECT_THAT(kubernetes_error(environment), HasSubstr("PFC_KUBERNETES_SERVICE 'a b'"));
}

}  // namespace
}  // namespace pfc
