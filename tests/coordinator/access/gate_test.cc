#include "coordinator/access/gate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "common/error.h"
#include "security/certificate.h"
#include "security/private_key.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

class CredentialsOfAGate : public ::testing::Test {
 protected:
  static Caller agent(const std::string& host, const Credential& credential) {
    return {.identity = {.role = Role::kAgent, .host = host},
            .serial = facts_of(credential.certificate)->serial};
  }

  TemporaryFolder folder;
  Gate gate{{.state_dir = folder.path()}};
};

TEST_F(CredentialsOfAGate, StayValidWhenAnotherCoordinatorMakesACredentialForTheSameHost) {
  Gate other({.state_dir = folder.path()});
  const Caller first = agent("a", gate.credential_for_local_agent("a"));
  const Caller second = agent("a", other.credential_for_local_agent("a"));
  EXPECT_FALSE(gate.outdated(first));
  EXPECT_FALSE(other.outdated(second));
  EXPECT_EQ(gate.outdated(second)->code, "revoked_certificate");
}

TEST_F(CredentialsOfAGate, UseJoinTokensThatAlwaysExpire) {
  Gate short_lived(
      {.state_dir = folder.path(), .token_lifetime = 0s, .clock = [] { return 1'000; }});
  static_cast<void>(short_lived.make_join_string("host:1"));
  EXPECT_EQ(short_lived.tokens().back().expires, 1'001);
  short_lived.create_token({}, {.lifetime = -5s}, "host:1");
  EXPECT_EQ(short_lived.tokens().back().expires, 1'001);
}

TEST_F(CredentialsOfAGate, CanBeRevokedForLocalAgents) {
  const Caller own = agent("a", gate.credential_for_local_agent("a"));
  EXPECT_TRUE(gate.revoke_host({}, "a"));
  EXPECT_TRUE(gate.outdated(own));
  EXPECT_FALSE(gate.revoke_host({}, "a"));
}

TEST_F(CredentialsOfAGate, AreRewrittenAfterTheFolderWasRemoved) {
  const auto state = folder / "state";
  Gate running({.state_dir = state});
  const auto made = running.create_token({}, {}, "host:1");
  std::filesystem::rename(state, folder / "removed");
  running.refresh_files();
  for (const auto& each : {state, state / "security"}) {
    EXPECT_EQ(std::filesystem::status(each).permissions(), std::filesystem::perms::owner_all);
  }
  EXPECT_TRUE(std::filesystem::exists(state / "security" / "admin.pem"));
  Gate next({.state_dir = state});
  EXPECT_EQ(next.fingerprint(), running.fingerprint());
  EXPECT_EQ(next.page_token(), running.page_token());
  EXPECT_EQ(next.tokens().back().id, made.id);
}

TEST_F(CredentialsOfAGate, AreNotWrittenIntoTheFolderOfAnotherUser) {
  const auto theirs = folder / "theirs";
  std::filesystem::create_directory(theirs);
  if (chown(theirs.c_str(), 65'534, 65'534) != 0)
    GTEST_SKIP() << "only root can give a folder away";
  EXPECT_THROW(Gate({.state_dir = theirs}), StorageError);
  EXPECT_TRUE(std::filesystem::is_empty(theirs));
}

}  // namespace
}  // namespace pfc
