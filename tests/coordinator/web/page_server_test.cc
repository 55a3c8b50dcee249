// Tests what the page at / needs of its server: requests that change something, and endless events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "coordinator/web/http_server.h"
#include "coordinator/web/live/live_feed.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class CountingSource final : public LiveSource {
 public:
  std::string changes() override {
    ++asked;
    return idle ? "" : R"({"n":)" + std::to_string(asked) + "," + padding + "}";
  }
  std::string all() override {
    return R"({"whole":true,"n":)" + std::to_string(asked) + "," + padding + "}";
  }

  std::string padding = R"("x":1)";
  bool idle = false;
  int asked = 0;
};

class PageServer : public ::testing::Test {
 protected:
  explicit PageServer(LiveFeed::Options options = {.pause = 10ms,
                                                   .heartbeat = 50ms,
                                                   .most_readers = 3})
      : feed(loop, options, source) {
    server.emplace(
        loop, "127.0.0.1", 0, site(),
        HttpSecurity{.loopback_only = true,
                     .refused = [this](const Caller&, const std::string&, const std::string& code,
                                       const std::string&) { refused.push_back(code); }});
    thread = std::thread([this] { loop.run(); });
  }
  ~PageServer() override { end(); }

  void end() {
    loop.stop();
    if (thread.joinable()) thread.join();
  }

  HttpSite site() {
    return {.handler =
                [this](const HttpRequest& request, const HttpAnswer& answer) {
                  if (request.path == "/events") {
                    auto opened = feed.open();
                    return answer(opened ? HttpReply{.feed = opened} : HttpReply{.status = 503});
                  }
                  if (request.path == "/later") return later.push_back(answer);
                  answer({.body = request.path + "?" + request.query + ": " + request.body,
                          .etag = request.path == "/file" ? "\"1\"" : ""});
                },
            .post_paths = {"/api/stop"}};
  }

  tcp::socket connected() {
    tcp::socket socket(io);
    socket.connect(
        {boost::asio::ip::address_v4::loopback(), static_cast<unsigned short>(server->port())});
    return socket;
  }

  std::string answer_to(const std::string& request) {
    tcp::socket socket = connected();
    boost::system::error_code error;
    boost::asio::write(socket, boost::asio::buffer(request), error);
    std::string answer;
    boost::asio::read(socket, boost::asio::dynamic_buffer(answer), error);
    return answer;
  }

  std::string post(const std::string& path, const std::string& body,
                   const std::string& headers = kOwn) {
    return answer_to("POST " + path + " HTTP/1.1\r\nHost: localhost:1\r\n" + headers +
                     "Connection: close\r\nContent-Length: " + std::to_string(body.size()) +
                     "\r\n\r\n" + body);
  }

  /// Returns a socket on which events have begun, and the first bytes of the reply.
  tcp::socket listens(std::string& begin) {
    tcp::socket socket = connected();
    boost::asio::write(socket, boost::asio::buffer(
                                   std::string("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")));
    read_until(socket, begin, "\n\n");
    return socket;
  }

  static void read_until(tcp::socket& socket, std::string& text, const std::string& end) {
    char bytes[65'536];
    while (text.find(end) == std::string::npos) {
      text.append(bytes, socket.read_some(boost::asio::buffer(bytes)));
    }
  }

  /// Calls it on the loop's thread, and waits.
  template <typename Call>
  auto on_loop(Call call) {
    std::promise<decltype(call())> result;
    boost::asio::post(loop, [&] { result.set_value(call()); });
    return result.get_future().get();
  }

  /// Waits until a timer of the loop has expired. Timers that were due earlier have then run.
  void pass_on_loop(std::chrono::milliseconds time) {
    std::promise<void> over;
    boost::asio::steady_timer timer(loop, time);
    timer.async_wait([&](const boost::system::error_code&) { over.set_value(); });
    over.get_future().wait();
  }

  static constexpr const char* kOwn =
      "Origin: http://localhost:1\r\nX-Pfc-Request: 1\r\nContent-Type: application/json\r\n";

  boost::asio::io_context io;
  std::vector<std::string> refused;
  std::vector<HttpAnswer> later;
  boost::asio::io_context loop;
  CountingSource source;
  LiveFeed feed;
  std::optional<HttpServer> server;
  std::thread thread;
};

TEST_F(PageServer, AcceptsAPostOfItsOwnPage) {
  EXPECT_THAT(post("/api/stop", R"({"job":"1"})"),
              AllOf(StartsWith("HTTP/1.1 200"), EndsWith(R"(/api/stop?: {"job":"1"})")));
}

TEST_F(PageServer, RefusesAPostOfAnotherSite) {
  EXPECT_THAT(post("/api/stop", "{}",
                   "Origin: http://evil.example\r\nX-Pfc-Request: 1\r\n"
                   "Content-Type: application/json\r\n"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(post("/api/stop", "{}", ""), StartsWith("HTTP/1.1 403"));
  end();
  EXPECT_THAT(refused, ::testing::ElementsAre("foreign_page", "foreign_page"));
}

TEST_F(PageServer, AcceptsAPostOnlyOnItsPostPaths) {
  EXPECT_THAT(post("/", "{}"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(post("/events", "{}"), StartsWith("HTTP/1.1 405"));
}

TEST_F(PageServer, RefusesABodyThatIsTooLong) {
  EXPECT_THAT(post("/api/stop", std::string(17 << 10, 'x')), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(answer_to("POST /api/stop HTTP/1.1\r\nHost: localhost:1\r\n" + std::string(kOwn) +
                        "Content-Length: 99999999999\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(answer_to("POST /api/stop HTTP/1.1\r\nHost: localhost:1\r\n" + std::string(kOwn) +
                        "Transfer-Encoding: chunked\r\n\r\n5000\r\n" + std::string(0x5000, 'x') +
                        "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
}

TEST_F(PageServer, AnswersAMalformedBodyWithAnError) {
  EXPECT_THAT(answer_to("POST /api/stop HTTP/1.1\r\nHost: localhost:1\r\n" + std::string(kOwn) +
                        "Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
              StartsWith("HTTP/1.1 400"));
}

TEST_F(PageServer, ServesAnotherRequestAfterAPost) {
  const std::string answer = answer_to(
      "POST /api/stop HTTP/1.1\r\nHost: localhost:1\r\n" + std::string(kOwn) +
      "Content-Length: 2\r\n\r\n{}GET /b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, AllOf(HasSubstr("/api/stop?: {}"), EndsWith("/b?: ")));
}

/// A server on loopback that needs a token, because other users of the machine can reach it too.
class PageServerWithToken : public PageServer {
 protected:
  PageServerWithToken() {
    on_loop([this] {
      server.emplace(loop, "127.0.0.1", 0, site(),
                     HttpSecurity{.admits = [](std::string_view authorization,
                                               const std::string&) -> std::optional<Caller> {
                                    if (authorization != "Bearer secret") return std::nullopt;
                                    return Caller{.identity = {.role = Role::kAdmin}};
                                  },
                                  .loopback_only = true});
      return 0;
    });
  }
  std::string get(const std::string& path, const std::string& headers = "") {
    return answer_to("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" +
                     headers + "\r\n");
  }
  /// Returns the cookie that a browser gets for the token.
  std::string cookie() {
    const std::string answer = get("/?token=secret");
    const std::string begin = "Set-Cookie: ";
    const std::size_t at = answer.find(begin) + begin.size();
    return answer.substr(at, answer.find(';', at) - at);
  }
};

TEST_F(PageServerWithToken, ShowsTheJobOnlyWithTheToken) {
  for (const char* path : {"/", "/status.json", "/events", "/api/log?rank=0", "/?token=wrong"}) {
    EXPECT_THAT(get(path), AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("/?token=TOKEN"))) << path;
  }
  EXPECT_THAT(get("/", "Cookie: pfc-1=secret\r\n"), StartsWith("HTTP/1.1 401"))
      << "the cookie of another port";
  EXPECT_THAT(post("/api/stop", "{}"), StartsWith("HTTP/1.1 401"));
}

TEST_F(PageServerWithToken, ServesMonitoringPathsWithoutTheToken) {
  for (const char* path : {"/healthz", "/metrics", "/targets", "/targets/hosts"}) {
    EXPECT_THAT(get(path), StartsWith("HTTP/1.1 200")) << path;
  }
}

TEST_F(PageServerWithToken, ReplacesTheTokenInTheAddressByACookie) {
  const std::string answer = get("/?token=secret");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 303"), HasSubstr("Location: /\r\n"),
                            HasSubstr("; Path=/; HttpOnly; SameSite=Strict\r\n")));
  const std::string kept = cookie();
  EXPECT_THAT(kept, AllOf(StartsWith("pfc-" + std::to_string(server->port()) + "="),
                          Not(HasSubstr("secret"))));
  EXPECT_THAT(get("/", "Cookie: a=b; " + kept + "\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get("/", "Authorization: Bearer secret\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(PageServerWithToken, DoesNotRedirectToAnotherHost) {
  EXPECT_THAT(get("//evil.example/?token=secret"), HasSubstr("Location: /\r\n"));
}

TEST_F(PageServerWithToken, RefusesAPostOfAnotherSiteWithTheCookie) {
  const std::string with_cookie = "Cookie: " + cookie() + "\r\n";
  EXPECT_THAT(post("/api/stop", "{}", kOwn + with_cookie), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(post("/api/stop", "{}", with_cookie + "Content-Type: application/json\r\n"),
              StartsWith("HTTP/1.1 403"));
}

TEST_F(PageServer, RefusesRequestsForAnotherHostName) {
  const std::string answer = answer_to("GET / HTTP/1.1\r\nHost: evil.example:7451\r\n\r\n");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 421"), HasSubstr("evil.example")));
  EXPECT_THAT(answer_to("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 421"));
  EXPECT_THAT(answer_to("GET /healthz HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 200"));
}

TEST_F(PageServer, SendsSecurityHeaders) {
  const std::string answer =
      answer_to("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  for (const char* header :
       {"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
        "connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
        "form-action 'none'\r\n",
        "X-Content-Type-Options: nosniff\r\n", "Referrer-Policy: no-referrer\r\n",
        "Cross-Origin-Resource-Policy: same-origin\r\n",
        "Cross-Origin-Opener-Policy: same-origin\r\n", "Cache-Control: no-store\r\n"}) {
    EXPECT_THAT(answer, HasSubstr(header));
  }
}

TEST_F(PageServer, LetsBrowsersCacheAFileForRevalidation) {
  EXPECT_THAT(answer_to("GET /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              AllOf(HasSubstr("ETag: \"1\"\r\n"), HasSubstr("Cache-Control: no-cache\r\n")));
}

TEST_F(PageServer, SendsADeferredReply) {
  tcp::socket socket = connected();
  boost::asio::write(
      socket, boost::asio::buffer(std::string("GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n")));
  while (!on_loop([&] { return !later.empty(); })) std::this_thread::sleep_for(1ms);
  boost::asio::post(loop, [&] { later[0]({.body = "now\n\n"}); });
  std::string answer;
  read_until(socket, answer, "now");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  end();
  later.clear();
}

TEST_F(PageServer, SendsTheWholeStateFirstAndThenChanges) {
  std::string text;
  tcp::socket socket = listens(text);
  read_until(socket, text, "data: {\"whole\":true");
  for (int i = 0; i < 3; ++i) {
    std::string more;
    read_until(socket, more, "\n\n");
    text += more;
  }
  EXPECT_THAT(text,
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("text/event-stream"),
                    HasSubstr("retry: 2000\n"), HasSubstr("data: {\"n\":"), HasSubstr("\nid: ")));
}

TEST_F(PageServer, SendsACommentIfNothingChanges) {
  on_loop([&] { return source.idle = true; });
  std::string text;
  tcp::socket socket = listens(text);
  read_until(socket, text, ":\n\n");
}

TEST_F(PageServer, DoesNotQueryTheSourceWithoutReaders) {
  {
    std::string text;
    const tcp::socket socket = listens(text);
  }
  while (on_loop([&] { return feed.readers(); }) > 0) std::this_thread::sleep_for(1ms);
  const int asked = on_loop([&] { return source.asked; });
  pass_on_loop(100ms);  // ten pauses
  EXPECT_EQ(on_loop([&] { return source.asked; }), asked);
}

TEST_F(PageServer, LimitsItsReaders) {
  std::vector<tcp::socket> readers;
  std::string text;
  for (int i = 0; i < 3; ++i) readers.push_back(listens(text));
  EXPECT_THAT(answer_to("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              StartsWith("HTTP/1.1 503"));
  readers.pop_back();
  while (on_loop([&] { return feed.readers(); }) > 2) std::this_thread::sleep_for(1ms);
  readers.push_back(listens(text));
}

/// A page server that sends nothing to its readers for an hour.
class QuietPageServer : public PageServer {
 protected:
  QuietPageServer() : PageServer({.pause = 1h, .heartbeat = 1h, .most_readers = 1}) {}
};

TEST_F(QuietPageServer, FreesTheReadersPlaceWhenItDisconnects) {
  {
    std::string text;
    const tcp::socket socket = listens(text);
  }
  std::string another;
  do {
    another.clear();
    tcp::socket socket = connected();
    boost::asio::write(socket, boost::asio::buffer(
                                   std::string("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")));
    read_until(socket, another, "\r\n\r\n");
  } while (another.starts_with("HTTP/1.1 503"));
  EXPECT_THAT(another, StartsWith("HTTP/1.1 200"));
}

TEST_F(PageServer, SendsTheWholeStateAgainToAReaderWhoFellBehind) {
  // The reply is far longer than what sockets buffer.
  on_loop([&] { return (source.padding = "\"x\":\"" + std::string(8 << 20, 'x') + "\"").size(); });
  tcp::socket slow = connected();
  boost::asio::write(
      slow, boost::asio::buffer(std::string("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")));
  // Meanwhile others are served, and more pieces are produced.
  const int asked = on_loop([&] { return source.asked; });
  while (on_loop([&] { return source.asked; }) < asked + 3) std::this_thread::sleep_for(1ms);
  EXPECT_THAT(answer_to("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 200"));
  on_loop([&] { return (source.padding = R"("x":1)").size(); });
  // Receives the piece in progress, then everything instead of the missed pieces.
  std::string text;
  read_until(slow, text, "\n\n");
  std::string more = text.substr(text.find("\n\n") + 2);
  read_until(slow, more, "data: ");
  read_until(slow, more, "\n\n");
  EXPECT_THAT(more, HasSubstr("{\"whole\":true"));
}

}  // namespace
}  // namespace pfc
