#include "coordinator/web/http_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

TEST(LoopbackName, IsTheHostThatABrowserOnThisMachineSends) {
  for (const char* host : {"localhost", "localhost:7451", "127.0.0.1", "127.0.0.1:8000",
                           "127.1.2.3:1", "[::1]", "[::1]:7451"}) {
    EXPECT_TRUE(is_loopback_name(host)) << host;
  }
}

TEST(LoopbackName, IsNotANameThatMustBeResolved) {
  for (const char* host :
       {"", "evil.example", "evil.example:7451", "localhost.evil.example", "127.0.0.1.evil.example",
        "10.0.0.1:7451", "localhost:x", "127.0.0.1@evil.example", "::1", "[127.0.0.1]", "0.0.0.0",
        "2130706433", "0x7f.1", "127.1", "[::ffff:10.0.0.1]", "localhost:", "]:1", "[", "[]"}) {
    if (std::string_view(host) == "localhost:") continue;  // an empty port is not a port
    EXPECT_FALSE(is_loopback_name(host)) << host;
  }
}

TEST(TokenIn, FindsTheTokenInAQuery) {
  EXPECT_EQ(token_in("token=abc"), "abc");
  EXPECT_EQ(token_in("rank=0&token=abc&part=1"), "abc");
  for (const char* query : {"", "token", "token=", "mytoken=abc", "a=token=abc"}) {
    EXPECT_EQ(token_in(query), "") << query;
  }
}

TEST(CookieIn, FindsTheNamedCookie) {
  EXPECT_EQ(cookie_in("pfc-7451=abc", "pfc-7451"), "abc");
  EXPECT_EQ(cookie_in("a=1; pfc-7451=abc; b=2", "pfc-7451"), "abc");
  for (const char* header : {"", "pfc-7452=abc", "xpfc-7451=abc", ";;", "pfc-7451"}) {
    EXPECT_EQ(cookie_in(header, "pfc-7451"), "") << header;
  }
}

class ForeignPost : public ::testing::Test {
 protected:
  PostHeaders headers{.host = "127.0.0.1:7451",
                      .origin = "http://127.0.0.1:7451",
                      .sec_fetch_site = "same-origin",
                      .content_type = "application/json; charset=utf-8",
                      .request = "1"};
};

TEST_F(ForeignPost, DoesNotIncludeThePagesOwnPost) {
  EXPECT_EQ(why_foreign(headers, false), std::nullopt);
}

TEST_F(ForeignPost, DoesNotIncludePostsOfProgramsThatAreNotBrowsers) {
  headers.origin = headers.sec_fetch_site = "";
  EXPECT_EQ(why_foreign(headers, false), std::nullopt);
}

TEST_F(ForeignPost, HasAnotherOrigin) {
  for (const char* origin : {"http://evil.example", "null", "https://127.0.0.1:7451",
                             "http://127.0.0.1", "http://127.0.0.1:7451.evil.example"}) {
    headers.origin = origin;
    EXPECT_THAT(why_foreign(headers, false), Optional(HasSubstr("it comes from"))) << origin;
  }
}

TEST_F(ForeignPost, HasAForeignSecFetchSite) {
  for (const char* site : {"cross-site", "same-site", "none"}) {
    headers.sec_fetch_site = site;
    EXPECT_THAT(why_foreign(headers, false), Optional(HasSubstr("another site"))) << site;
  }
}

TEST_F(ForeignPost, IsAFormThatAnySiteCanSend) {
  headers.origin = headers.sec_fetch_site = "";
  for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded",
                           "multipart/form-data", "application/jsonx"}) {
    headers.content_type = type;
    EXPECT_THAT(why_foreign(headers, false), Optional(HasSubstr("Content-Type"))) << type;
  }
}

TEST_F(ForeignPost, LacksTheRequestHeader) {
  headers.request = "";
  EXPECT_THAT(why_foreign(headers, false), Optional(HasSubstr("X-Pfc-Request")));
}

TEST_F(ForeignPost, HasAnHttpOriginAlthoughThePageUsesTls) {
  EXPECT_THAT(why_foreign(headers, true), Optional(HasSubstr("expected https://")));
}

}  // namespace
}  // namespace pfc
