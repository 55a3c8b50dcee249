// Tests that one switch aborts several Comms.
#include "comm/failures/abort_switch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "common/error.h"
#include "tests/comm/ranks.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

std::unique_ptr<Comm> lonely(MemoryStore& store) {
  return make_host_comm(options_of(0, 1), &store);
}

TEST(AbortSwitch, EndsWaitsOfAllItsComms) {
  MemoryStore store;
  AbortSwitch abort_switch;
  // Both peers stay until the end, because a peer that leaves also ends waits.
  std::vector<std::unique_ptr<Comm>> first(2), second(2);
  on_threads(2, [&](int rank) {
    first[rank] = make_host_comm(options_of(rank, 2, "first"), &store);
    second[rank] = make_host_comm(options_of(rank, 2, "second"), &store);
    if (rank == 1) {
      store.get("guarded", std::chrono::seconds{30});
      return abort_switch.abort("rank 7 was killed");
    }
    const AbortSwitch::Guard first_guard(abort_switch, *first[0]);
    const AbortSwitch::Guard second_guard(abort_switch, *second[0]);
    store.set("guarded", {});
    EXPECT_THAT(message_of<CommError>([&] { second[0]->barrier(); }),
                HasSubstr("rank 7 was killed"));
    EXPECT_THAT(message_of<CommError>([&] { first[0]->barrier(); }),
                HasSubstr("rank 7 was killed"));
  });
}

TEST(AbortSwitch, AbortsCommsRegisteredLater) {
  MemoryStore store;
  AbortSwitch abort_switch;
  abort_switch.abort("rank 7 was killed");
  const auto late = lonely(store);
  const AbortSwitch::Guard guard(abort_switch, *late);
  EXPECT_THAT(message_of<CommError>([&] { late->barrier(); }), HasSubstr("rank 7 was killed"));
}

TEST(AbortSwitch, IgnoresDestroyedComms) {
  MemoryStore store;
  AbortSwitch abort_switch;
  const auto gone = lonely(store);
  std::optional<AbortSwitch::Guard> guard(std::in_place, abort_switch, *gone);
  guard.reset();
  abort_switch.abort("rank 7 was killed");
  EXPECT_NO_THROW(gone->barrier());
}

TEST(AbortSwitch, KeepsItsFirstReason) {
  MemoryStore store;
  AbortSwitch abort_switch;
  abort_switch.abort("rank 7 was killed");
  abort_switch.abort("rank 8 was killed");
  const auto late = lonely(store);
  const AbortSwitch::Guard guard(abort_switch, *late);
  EXPECT_THAT(message_of<CommError>([&] { late->barrier(); }), HasSubstr("rank 7 was killed"));
}

}  // namespace
}  // namespace pfc
