// What a resumed job says of the checkpoint's job.
#include "worker/start/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pfc {
namespace {

using nlohmann::json;
using ::testing::IsEmpty;

TEST(OrderOfAResumedJob, IsTheSameWhereOtherKeysDiffer) {
  const json before{{"seed", 1}, {"shuffle", true}, {"read", "random"}, {"read_buffer_mib", 64}};
  json now = before;
  now["lr"] = 0.5;
  now["read_buffer_mib"] = 128;  // of no random order
  EXPECT_THAT(other_order(before, now), IsEmpty());
}

TEST(OrderOfAResumedJob, IsAnotherWhereItsKeysDiffer) {
  const json before{
      {"seed", 1}, {"shuffle", true}, {"read", "sequential"}, {"read_buffer_mib", 64}};
  const json now{{"seed", 2}, {"shuffle", false}, {"read", "sequential"}, {"read_buffer_mib", 128}};
  EXPECT_EQ(other_order(before, now),
            "seed 1 became 2, shuffle true became false, read_buffer_mib 64 became 128");
}

TEST(OrderOfAResumedJob, IsNotComparedWithAKeyThatAnOlderVersionDidNotWrite) {
  EXPECT_THAT(other_order(json::object(), json{{"seed", 2}, {"read", "sequential"}}), IsEmpty());
}

}  // namespace
}  // namespace pfc
