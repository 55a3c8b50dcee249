#include "coordinator/web/targets.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pfc {
namespace {

using nlohmann::json;

TEST(PrometheusTargets, ContainTheCoordinatorsAddress) {
  EXPECT_EQ(json::parse(coordinator_targets("10.0.0.1:7451")),
            json::parse(R"([{"targets": ["10.0.0.1:7451"], "labels": {}}])"));
}

TEST(PrometheusTargets, ContainRegisteredHosts) {
  proto::StatusReply status;
  for (const auto& [name, address] :
       {std::pair{"a", "10.0.0.2"}, std::pair{"b\xff", "fd00::2"}, std::pair{"c", ""}}) {
    proto::HostStatus* host = status.add_hosts();
    host->set_name(name);
    host->set_address(address);
    host->set_registered(true);
  }
  status.add_hosts()->set_address("10.0.0.9");  // this host is not registered
  EXPECT_EQ(json::parse(host_targets(status)),
            json::parse(R"([{"targets": ["10.0.0.2"], "labels": {"host": "a"}},
                            {"targets": ["[fd00::2]"], "labels": {"host": "b\ufffd"}}])"));
}

TEST(PrometheusTargets, AreAnEmptyListWithoutHosts) {
  EXPECT_EQ(json::parse(host_targets({})), json::array());
}

}  // namespace
}  // namespace pfc
