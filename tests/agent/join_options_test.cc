// Tests an agent's join file with several coordinators in sequence.
#include "agent/join_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <system_error>

#include "common/error.h"
#include "tests/coordinator/running_coordinator.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::message_of;

class AJoinFile : public ::testing::Test {
 protected:
  void holds(const std::string& join_string) const {
    std::ofstream(folder / "new") << join_string << "\n";
    std::filesystem::permissions(folder / "new", std::filesystem::perms::owner_read);
    std::filesystem::rename(folder / "new", folder / "join");
  }
  /// Returns the options that joining sets.
  AgentOptions joins(std::chrono::milliseconds patience) const {
    CLI::App app;
    AgentOptions options{.host = "a", .patience = patience};
    JoinOptions joining;
    joining.declare(app, options.coordinator);
    app.parse("--join-file " + (folder / "join").string() + " --state-dir " +
              (folder / "agent").string());
    joining.apply(options, false);
    return options;
  }

  /// Returns whether the agent has made its key, which it does after it has read a join string and
  /// before it connects.
  [[nodiscard]] bool has_made_a_key() const {
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator(folder / "agent", none)) {
      if (file.path().extension() == ".key") return true;
    }
    return false;
  }

  TemporaryFolder folder;
  Gate gate{{.state_dir = folder / "state"}};
  testing::RunningCoordinator coordinator{
      {{.name = "a", .slots = 1}}, testing::impatient(), 0, "0123456789abcdef", &gate};
  const std::string current = gate.make_join_string(coordinator.address());
  /// A join string of a coordinator with another authority at the same address.
  const std::string outdated = current.substr(0, current.find('#') + 1) + std::string(64, '0');
};

TEST_F(AJoinFile, IsReadAgainIfLeftByAnEarlierCoordinator) {
  holds(outdated);
  auto joining = std::async(std::launch::async, [&] { return joins(2min); });
  testing::wait_until([&] { return has_made_a_key(); });  // it has read the outdated file
  EXPECT_EQ(joining.wait_for(1s), std::future_status::timeout);
  holds(current);
  const AgentOptions joined = joining.get();
  EXPECT_EQ(joined.coordinator, coordinator.address());
  EXPECT_TRUE(joined.credential.secure());
}

TEST_F(AJoinFile, IsRefusedIfItsFingerprintNeverMatches) {
  holds(outdated);
  EXPECT_THAT(message_of<InputError>([&] { joins(2s); }),
              HasSubstr("a certificate that does not match"));
}

}  // namespace
}  // namespace pfc
