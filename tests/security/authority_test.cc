#include "security/authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/error.h"
#include "security/certificate.h"
#include "security/private_key.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

class AuthorityTest : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  Authority authority{folder.path()};

  /// Returns whether a program with this clock offset (seconds) accepts the certificate.
  [[nodiscard]] bool is_taken(const std::string& pem, int purpose, long clock_off = 0) const {
    using StoreOwner = std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>>;
    using ContextOwner = std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>>;
    const CertificateOwner certificate = certificate_from_pem(pem);
    const CertificateOwner root = certificate_from_pem(authority.certificate());
    const StoreOwner store(X509_STORE_new());
    X509_STORE_add_cert(store.get(), root.get());
    const ContextOwner context(X509_STORE_CTX_new());
    X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), nullptr);
    X509_STORE_CTX_set_purpose(context.get(), purpose);
    X509_STORE_CTX_set_time(context.get(), 0, time(nullptr) + clock_off);
    return X509_verify_cert(context.get()) == 1;
  }
};

TEST_F(AuthorityTest, IsMadeOnceAndReadableOnlyByItsUser) {
  EXPECT_EQ(Authority(folder.path()).fingerprint(), authority.fingerprint());
  EXPECT_EQ(authority.fingerprint().size(), 64U);
  struct stat info {};
  ASSERT_EQ(stat((folder / "authority.pem").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST_F(AuthorityTest, IsRefusedWhenItsFileIsReadableByOthersOrDamaged) {
  const auto path = folder / "authority.pem";
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(message_of<InputError>([&] { Authority again(folder.path()); }),
              HasSubstr("chmod 600"));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  EXPECT_THAT(message_of<InputError>([&] { Authority again(folder.path()); }),
              HasSubstr("authority.pem: expected a private key and its certificate"));
}

TEST_F(AuthorityTest, IssuesCertificatesEitherForAClientOrForAServer) {
  const Credential agent = authority.make_credential({.role = Role::kAgent, .host = "b"});
  const Credential server = authority.make_credential({.role = Role::kServer});
  EXPECT_TRUE(is_taken(agent.certificate, X509_PURPOSE_SSL_CLIENT));
  EXPECT_FALSE(is_taken(agent.certificate, X509_PURPOSE_SSL_SERVER));
  EXPECT_TRUE(is_taken(server.certificate, X509_PURPOSE_SSL_SERVER));
  EXPECT_FALSE(is_taken(server.certificate, X509_PURPOSE_SSL_CLIENT));
}

TEST_F(AuthorityTest, IssuesCertificatesForHostsWithWrongClocks) {
  const Credential agent = authority.make_credential({.role = Role::kAgent, .host = "b"});
  for (const long seconds : {-60L, 60L, -3'600L, 3'600L, -80'000L}) {
    EXPECT_TRUE(is_taken(agent.certificate, X509_PURPOSE_SSL_CLIENT, seconds)) << seconds;
  }
  EXPECT_FALSE(is_taken(agent.certificate, X509_PURPOSE_SSL_CLIENT, 11L * 365 * 86'400));
}

TEST_F(AuthorityTest, RejectsCertificatesOfAnotherAuthority) {
  const TemporaryFolder other_folder;
  const Authority other(other_folder.path());
  const Credential stranger = other.make_credential({.role = Role::kAdmin});
  EXPECT_FALSE(is_taken(stranger.certificate, X509_PURPOSE_SSL_CLIENT));
}

TEST_F(AuthorityTest, WritesTheIdentityIntoACertificate) {
  const Identity worker{.role = Role::kWorker, .host = "2001:db8::7", .job = "01ab", .agent = "ff"};
  const KeyOwner key = make_key();
  const Authority::Issued issued = authority.issue(*key, worker);
  const auto facts = facts_of(issued.certificate);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->identity, worker);
  EXPECT_EQ(facts->serial, issued.serial);
  EXPECT_NE(authority.issue(*key, worker).serial, issued.serial);
  EXPECT_EQ(authority.issue(*key, worker, issued.serial).serial, issued.serial);
}

TEST_F(AuthorityTest, RejectsHostNamesThatAreNotPrintableAscii) {
  const KeyOwner key = make_key();
  for (const std::string host : {"a b", "a\n", "h\xc3\xb6st"}) {
    EXPECT_THAT(message_of<InputError>([&] {
                  static_cast<void>(authority.issue(*key, {.role = Role::kAgent, .host = host}));
                }),
                HasSubstr("printable ASCII"));
  }
}

TEST(CertificateRequest, ReturnsTheKeyThatSignedIt) {
  const KeyOwner key = make_key();
  EXPECT_EQ(hash_of(*key_of_request(make_request(*key))), hash_of(*key));
}

TEST(CertificateRequest, IsRejectedIfMalformedTooLongOrNotOnP256) {
  EXPECT_THAT(message_of<InputError>([] { key_of_request("nonsense"); }), HasSubstr("PEM"));
  EXPECT_THAT(message_of<InputError>([] { key_of_request(std::string(1 << 20, 'x')); }),
              HasSubstr("expected at most 4096"));
  const KeyOwner rsa(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", static_cast<std::size_t>(2048)));
  EXPECT_THAT(message_of<InputError>([&] { key_of_request(make_request(*rsa)); }),
              HasSubstr("P-256"));
}

TEST(Credential, IsOneTextWithThreeParts) {
  const TemporaryFolder folder;
  const Authority authority(folder.path());
  const Credential made = authority.make_credential({.role = Role::kAdmin});
  const Credential read = credential_from_text(to_text(made), "file");
  EXPECT_EQ(read.key, made.key);
  EXPECT_EQ(read.certificate, made.certificate);
  EXPECT_EQ(read.authority, authority.certificate());
  EXPECT_THAT(message_of<InputError>([&] { credential_from_text(made.key, "file"); }),
              HasSubstr("file: expected a private key"));
}

}  // namespace
}  // namespace pfc
