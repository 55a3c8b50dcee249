#include "security/token_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "security/private_key.h"
#include "security/secret_file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

class Tokens : public ::testing::Test {
 protected:
  /// Returns "" if the exchange is granted, otherwise the code of the denial.
  std::string exchanges(const std::string& secret, const std::string& host, EVP_PKEY& its_key) {
    const auto result = store.exchange(secret, host, its_key, authority);
    if (const auto* denial = std::get_if<Denial>(&result)) return denial->code;
    serial = std::get<TokenStore::Exchange>(result).issued.serial;
    return "";
  }

  /// Returns the id of the valid token with one of these roles, or the code of the denial.
  std::string id_of(const std::string& secret, TokenStore::Roles roles) {
    const auto result = store.find_valid(secret, roles);
    if (const auto* denial = std::get_if<Denial>(&result)) return denial->code;
    return std::get<Token>(result).id;
  }

  /// Adds copies of the first token to the file until it contains `tokens` of them.
  void fill_file(std::size_t tokens) {
    nlohmann::json written;
    std::ifstream(folder / "tokens.json") >> written;
    nlohmann::json& list = written.at("tokens");
    while (list.size() < tokens) {
      list.push_back(list[0]);
      list.back()["id"] = "copy" + std::to_string(list.size());
    }
    std::ofstream(folder / "tokens.json") << written;
  }

  TemporaryFolder folder;
  std::int64_t now = 1'000'000;
  Authority authority{folder.path()};
  TokenStore store{folder.path(), [this] { return now; }};
  KeyOwner key = make_key();
  KeyOwner another_key = make_key();
  std::string serial;
};

TEST_F(Tokens, AreExchangedForACertificateOfTheHost) {
  const std::string secret = store.create({.lifetime = 1h}).secret;
  EXPECT_EQ(exchanges(secret, "b", *key), "");
  EXPECT_TRUE(store.is_current("b", serial));
  EXPECT_FALSE(store.is_current("c", serial));
  EXPECT_FALSE(store.is_current("b", ""));
}

TEST_F(Tokens, AreKeptAsHashesOnly) {
  const std::string secret = store.create({.lifetime = 1h}).secret;
  std::ifstream file(folder / "tokens.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, HasSubstr("sha256"));
  EXPECT_THAT(text, Not(HasSubstr(secret)));
}

TEST_F(Tokens, CanServeSeveralHosts) {
  const std::string secret = store.create({.lifetime = 1h}).secret;
  EXPECT_EQ(exchanges(secret, "b", *key), "");
  EXPECT_EQ(exchanges(secret, "c", *another_key), "");
}

TEST_F(Tokens, AreRefusedWithAReason) {
  const std::string secret = store.create({.hosts = {"b"}, .lifetime = 1h}).secret;
  EXPECT_EQ(exchanges(std::string(32, '0'), "b", *key), "wrong_token");
  EXPECT_EQ(exchanges(secret, "c", *key), "wrong_host");
  now += 3'600;
  EXPECT_EQ(exchanges(secret, "b", *key), "expired_token");
  const TokenStore::NewToken revoked = store.create({.lifetime = 1h});
  EXPECT_TRUE(store.revoke(revoked.token.id));
  EXPECT_FALSE(store.revoke("nonsense"));
  EXPECT_EQ(exchanges(revoked.secret, "b", *key), "revoked_token");
}

TEST_F(Tokens, AreRefusedToAnotherKeyOfAHostThatHasUsedThem) {
  const std::string secret = store.create({.lifetime = 1h}).secret;
  EXPECT_EQ(exchanges(secret, "b", *key), "");
  EXPECT_EQ(exchanges(secret, "b", *another_key), "replayed_token");
}

TEST_F(Tokens, ReturnTheCertificateOfAKnownKeyEvenAfterExpiry) {
  const std::string secret = store.create({.lifetime = 1h}).secret;
  EXPECT_EQ(exchanges(secret, "b", *key), "");
  const std::string first = serial;
  now += 10'000;
  EXPECT_EQ(exchanges(secret, "b", *key), "");
  EXPECT_EQ(serial, first);
}

TEST_F(Tokens, ReplaceAnOlderCertificateOfTheirHost) {
  const std::string first = store.create({.lifetime = 1h}).secret;
  EXPECT_EQ(exchanges(first, "b", *key), "");
  const std::string old = serial;
  const std::string second = store.create({.hosts = {"b"}, .lifetime = 1h}).secret;
  EXPECT_TRUE(store.is_current("b", old));
  EXPECT_EQ(exchanges(second, "b", *another_key), "");
  EXPECT_FALSE(store.is_current("b", old));
  EXPECT_TRUE(store.is_current("b", serial));
  EXPECT_EQ(exchanges(first, "b", *key), "replayed_token");
}

TEST_F(Tokens, DoNotReplaceACertificateIfMadeForAllHosts) {
  EXPECT_EQ(exchanges(store.create({.lifetime = 1h}).secret, "b", *key), "");
  const std::string later = store.create({.lifetime = 1h}).secret;
  EXPECT_EQ(exchanges(later, "b", *another_key), "host_has_certificate");
  EXPECT_TRUE(store.is_current("b", serial));
  EXPECT_EQ(exchanges(later, "c", *another_key), "");
}

TEST_F(Tokens, AreInvalidIfOlderThanTheHostsRevocation) {
  const std::string secret = store.create({.lifetime = 1h}).secret;
  EXPECT_EQ(exchanges(secret, "b", *key), "");
  EXPECT_TRUE(store.revoke_host("b"));
  EXPECT_FALSE(store.is_current("b", serial));
  EXPECT_EQ(exchanges(secret, "b", *key), "replayed_token");
  EXPECT_EQ(exchanges(store.create({.lifetime = 1h}).secret, "b", *key), "");
}

TEST_F(Tokens, CannotJoinIfMadeForReading) {
  const TokenStore::NewToken reading = store.create({.role = Role::kReader});
  now += 1'000'000'000;
  EXPECT_EQ(id_of(reading.secret, {Role::kReader}), reading.token.id);
  EXPECT_EQ(exchanges(reading.secret, "b", *key), "wrong_token");
  const std::string joining = store.create({.lifetime = 1h}).secret;
  EXPECT_EQ(id_of(joining, {Role::kReader}), "wrong_token");
  EXPECT_EQ(id_of(reading.secret, {Role::kSubmitter}), "wrong_token");
  EXPECT_EQ(id_of(reading.secret, {Role::kSubmitter, Role::kReader}), reading.token.id);
  store.revoke(reading.token.id);
  EXPECT_EQ(id_of(reading.secret, {Role::kReader}), "revoked_token");
}

TEST_F(Tokens, AreSharedByTheCoordinatorsOfOneFolder) {
  TokenStore other(folder.path(), [this] { return now; });
  const std::string secret = store.create({.lifetime = 1h}).secret;
  EXPECT_EQ(other.list().size(), 1U);
  EXPECT_TRUE(
      std::holds_alternative<TokenStore::Exchange>(other.exchange(secret, "b", *key, authority)));
  EXPECT_EQ(exchanges(secret, "b", *another_key), "replayed_token");
  store.create({.lifetime = 1h});
  EXPECT_EQ(other.list().size(), 2U);
}

TEST_F(Tokens, IgnoreChangesOfTheFileUntilItIsReadAgain) {
  const auto reading = store.create({.role = Role::kReader});
  ASSERT_EQ(exchanges(store.create({.lifetime = 1h}).secret, "b", *key), "");
  TokenStore other(folder.path(), [this] { return now; });
  other.revoke_host("b");
  other.revoke(reading.token.id);
  EXPECT_TRUE(store.is_current("b", serial));
  EXPECT_EQ(id_of(reading.secret, {Role::kReader}), reading.token.id);
  other.create({.lifetime = 1h});
  EXPECT_EQ(store.valid_join_hashes().size(), 1U);
  store.refresh();
  EXPECT_FALSE(store.is_current("b", serial));
  EXPECT_EQ(id_of(reading.secret, {Role::kReader}), "revoked_token");
  EXPECT_EQ(store.valid_join_hashes().size(), 2U);
}

TEST_F(Tokens, AreWrittenAgainWhenTheFileWasRemoved) {
  store.refresh();
  EXPECT_FALSE(std::filesystem::exists(folder / "tokens.json"));
  const auto made = store.create({.lifetime = 1h});
  std::filesystem::remove(folder / "tokens.json");
  store.refresh();
  const std::vector<Token> kept = TokenStore(folder.path(), [] { return 0; }).list();
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept.front().hash, made.token.hash);
}

TEST_F(Tokens, CountTowardsTheLimitUntilTheyHaveLongExpired) {
  store.create({.lifetime = 1h});
  fill_file(TokenStore::kMostTokens - 1);
  store.create({.lifetime = 1h});
  EXPECT_THAT(message_of<InputError>([&] { store.create({.lifetime = 1h}); }),
              HasSubstr("found 1000 tokens, which is the limit"));
  now += 8 * 86'400;
  store.create({.lifetime = 1h});
  EXPECT_EQ(store.list().size(), 1U);
}

TEST_F(Tokens, AreNotLoadedFromADamagedFile) {
  store.create({.lifetime = 1h});
  std::ofstream(folder / "tokens.json") << R"({"number": "x"})";
  EXPECT_THAT(message_of<InputError>([&] { TokenStore(folder.path(), [] { return 0; }); }),
              HasSubstr("tokens.json: not a token file"));
}

TEST_F(Tokens, ReportADamagedFileOnceAMinute) {
  store.create({.lifetime = 1h});
  std::ofstream(folder / "tokens.json") << R"({"number": "x"})";
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
  const TimePoint start = Clock::now();
  for (int i = 0; i < 50; ++i) store.refresh();
  const auto minutes = std::chrono::floor<std::chrono::minutes>(Clock::now() - start).count();
  spdlog::set_default_logger(before);
  const std::string text = log.str();
  EXPECT_THAT(text, HasSubstr("tokens.json: not a token file"));
  EXPECT_LE(std::ranges::count(text, '\n'), 1 + minutes) << text;
}

TEST_F(Tokens, StayValidWhileTheFileIsDamaged) {
  const TokenStore::NewToken reading = store.create({.role = Role::kReader});
  const std::string joining = store.create({.lifetime = 1h}).secret;
  ASSERT_EQ(exchanges(joining, "b", *key), "");
  std::ofstream(folder / "tokens.json") << R"({"number": "x"})";
  for (int i = 0; i < 1'001; ++i) {
    if (i % 100 == 0) store.refresh();
    EXPECT_EQ(id_of("junk" + std::to_string(i), {Role::kReader, Role::kAdmin}), "wrong_token");
  }
  EXPECT_EQ(id_of(reading.secret, {Role::kReader}), reading.token.id);
  EXPECT_TRUE(store.is_current("b", serial));
  EXPECT_EQ(store.list().size(), 2U);
  EXPECT_EQ(store.valid_join_hashes().size(), 1U);
  // Changes are refused while the file is damaged, and do not replace it.
  EXPECT_THAT(message_of<InputError>([&] { store.create({.lifetime = 1h}); }),
              HasSubstr("tokens.json: not a token file"));
  EXPECT_THROW(store.exchange(joining, "c", *another_key, authority), InputError);
  std::ifstream file(folder / "tokens.json");
  EXPECT_EQ((std::string{std::istreambuf_iterator<char>(file), {}}), R"({"number": "x"})");
}

/// Writing fails, because the name of the temporary file is taken.
class TokensOnAFullDisk : public Tokens {
 protected:
  void fill_disk() {
    std::filesystem::create_directory(folder /
                                      ("tokens.json." + std::to_string(getpid()) + ".tmp"));
  }
};

TEST_F(TokensOnAFullDisk, AreNotMade) {
  fill_disk();
  EXPECT_THROW(store.create({.lifetime = 1h}), StorageError);
  EXPECT_THAT(store.list(), ::testing::IsEmpty());
  EXPECT_THAT(store.valid_join_hashes(), ::testing::IsEmpty());
}

TEST_F(TokensOnAFullDisk, AreNotExchangedOrRevoked) {
  const auto made = store.create({.lifetime = 1h});
  ASSERT_EQ(exchanges(made.secret, "b", *key), "");
  const std::string kept = serial;
  fill_disk();
  EXPECT_THROW(exchanges(made.secret, "c", *another_key), StorageError);
  EXPECT_THROW(store.revoke(made.token.id), StorageError);
  EXPECT_THROW(store.revoke_host("b"), StorageError);
  EXPECT_FALSE(store.list().front().revoked);
  EXPECT_TRUE(store.is_current("b", kept));
}

TEST_F(Tokens, CanBeReadWhileAnotherWriterWaits) {
  const std::string secret = store.create({.lifetime = 1h}).secret;
  ASSERT_EQ(exchanges(secret, "b", *key), "");
  std::optional<FolderLock> elsewhere(std::in_place, folder.path());
  std::atomic<bool> begun{false};
  auto making = std::async(std::launch::async, [&] {
    begun = true;
    store.create({.lifetime = 1h});  // waits for the lock; throws after 5 s
  });
  while (!begun) std::this_thread::yield();
  // The writer retries the lock without reporting it, so there is no event to wait for.
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(store.is_current("b", serial));
    EXPECT_EQ(store.valid_join_hashes().size(), 1U);
    std::this_thread::sleep_for(1ms);
  }
  elsewhere.reset();
  EXPECT_NO_THROW(making.get());
}

}  // namespace
}  // namespace pfc
