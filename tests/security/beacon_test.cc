#include "security/beacon.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

const std::string kHash(64, 'a');
const Beacon kBeacon{.address = "10.0.0.1:7450", .fingerprint = std::string(64, '5')};

TEST(Beacon, AnnouncesTheCoordinatorsAddress) {
  const Beacon other{.address = "[2001:db8::7]:1", .fingerprint = std::string(64, 'f')};
  EXPECT_EQ(verify_beacon(sign_beacon(kBeacon, kHash), kHash), kBeacon);
  EXPECT_EQ(verify_beacon(sign_beacon(other, kHash), kHash), other);
}

TEST(Beacon, RejectsSendersWithoutTheToken) {
  EXPECT_FALSE(verify_beacon(sign_beacon(kBeacon, std::string(64, 'b')), kHash));
}

TEST(Beacon, RejectsAnyFlippedByte) {
  const std::string whole = sign_beacon(kBeacon, kHash);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(verify_beacon(changed, kHash)) << changed;
  }
}

TEST(Beacon, RejectsTruncatedExtendedAndForeignDatagrams) {
  const std::string whole = sign_beacon(kBeacon, kHash);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(verify_beacon(std::string_view(whole).substr(0, size), kHash)) << size;
  }
  EXPECT_FALSE(verify_beacon(whole + " ", kHash));
  EXPECT_FALSE(verify_beacon(whole + std::string(kLongestBeacon, 'x'), kHash));
  EXPECT_FALSE(verify_beacon(std::string(3, '\0'), kHash));
}

// A sender that knows the token may send invalid values.
TEST(Beacon, RejectsInvalidAddressesAndFingerprints) {
  for (const char* address : {"", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:70000", ":1"}) {
    EXPECT_FALSE(verify_beacon(sign_beacon({address, kBeacon.fingerprint}, kHash), kHash))
        << address;
  }
  EXPECT_FALSE(verify_beacon(sign_beacon({kBeacon.address, "abc"}, kHash), kHash));
}

}  // namespace
}  // namespace pfc
