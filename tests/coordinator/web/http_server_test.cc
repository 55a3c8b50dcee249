#include "coordinator/web/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using boost::asio::ip::tcp;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Sends the bytes and reads until the server closes.
std::string ask(int port, const std::string& request) {
  boost::asio::io_context io;
  tcp::socket socket(io);
  socket.connect({boost::asio::ip::address_v4::loopback(), static_cast<unsigned short>(port)});
  boost::system::error_code error;
  boost::asio::write(socket, boost::asio::buffer(request), error);
  std::string answer;
  boost::asio::read(socket, boost::asio::dynamic_buffer(answer), error);
  return answer;
}

class Http : public ::testing::Test {
 protected:
  ~Http() override {
    loop.stop();
    thread.join();
  }

  std::string answer_to(const std::string& request) { return ask(server.port(), request); }

  std::string get(const std::string& target) {
    return answer_to("GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  boost::asio::io_context loop;
  HttpServer server{loop, "127.0.0.1", 0, pages_only([](std::string_view path) {
                      if (path == "/broken") throw std::runtime_error("no such\nrank");
                      return HttpReply{.body = "you asked for " + std::string(path)};
                    })};
  std::thread thread{[this] { loop.run(); }};
};

TEST(HttpRequests, SayWhetherTheyComeFromPrometheus) {
  boost::asio::io_context loop;
  std::vector<bool> scrapes;
  const HttpSite site{.handler = [&](const HttpRequest& request, const HttpAnswer& answer) {
    scrapes.push_back(request.scrape);
    answer({});
  }};
  HttpServer server(loop, "127.0.0.1", 0, site);
  std::thread thread([&] { loop.run(); });
  for (const std::string header : {"", "X-Prometheus-Scrape-Timeout-Seconds: 10\r\n"}) {
    ask(server.port(),
        "GET /metrics HTTP/1.1\r\nHost: x\r\n" + header + "Connection: close\r\n\r\n");
  }
  loop.stop();
  thread.join();
  EXPECT_EQ(scrapes, std::vector({false, true}));
}

TEST_F(Http, AnswersGetWithTheHandlersReply) {
  EXPECT_THAT(get("/healthz"), AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("Content-Length: 22"),
                                     EndsWith("you asked for /healthz")));
}

TEST_F(Http, IgnoresTheQueryInThePath) {
  EXPECT_THAT(get("/?x=1&y=2"), EndsWith("you asked for /"));
}

TEST_F(Http, AnswersHeadWithoutABody) {
  const std::string answer =
      answer_to("HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 OK"), Not(HasSubstr("you asked"))));
}

TEST_F(Http, RefusesOtherMethodsAndSaysWhichAreServed) {
  for (const std::string request :
       {"DELETE / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        "PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"}) {
    EXPECT_THAT(answer_to(request),
                AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("\r\nAllow: GET, HEAD\r\n"),
                      HasSubstr("\r\nConnection: close\r\n"), EndsWith("served here\n")))
        << request;
  }
}

TEST_F(Http, RefusesALargeUploadWithoutReadingIt) {
  const std::string half_a_megabyte(1 << 19, 'x');
  EXPECT_THAT(answer_to("PUT / HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n" + half_a_megabyte),
              StartsWith("HTTP/1.1 405"));
}

TEST_F(Http, DoesNotParseABodyAsTheNextRequest) {
  const std::string answer =
      answer_to("GET /a HTTP/1.1\r\nContent-Length: 18\r\n\r\nGET /b HTTP/1.1\r\n\r\n");
  EXPECT_THAT(answer, AllOf(EndsWith("you asked for /a"), Not(HasSubstr("/b"))));
}

TEST_F(Http, ServesSeveralRequestsOverOneConnection) {
  const std::string answer = answer_to(
      "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, AllOf(HasSubstr("for /a"), EndsWith("for /b")));
}

TEST_F(Http, AnswersATooLongPathWithAnError) {
  EXPECT_THAT(get("/" + std::string(20'000, 'x')),
              AllOf(StartsWith("HTTP/1.1 414"), EndsWith("expected at most 8192 bytes\n")));
}

TEST_F(Http, AnswersATooLongHeaderWithAnError) {
  EXPECT_THAT(answer_to("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x')),
              StartsWith("HTTP/1.1 431"));
}

TEST_F(Http, AnswersRequestsThatAreNotHttpWithAnError) {
  for (const std::string request :
       {"nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n"}) {
    EXPECT_THAT(answer_to(request),
                AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("not an HTTP request")))
        << request;
  }
}

TEST_F(Http, AnswersWithAnErrorWhenAPageCannotBeMade) {
  EXPECT_THAT(get("/broken"), AllOf(StartsWith("HTTP/1.1 500"), HasSubstr("no such rank")));
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(Http, ClosesTheOldestIdleConnectionToAcceptANewConnection) {
  boost::asio::io_context io;
  std::vector<tcp::socket> idle;
  for (int i = 0; i < 65; ++i) {
    idle.emplace_back(io).connect(
        {boost::asio::ip::address_v4::loopback(), static_cast<unsigned short>(server.port())});
  }
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 200"));
  char byte = 0;
  boost::system::error_code error;
  boost::asio::read(idle.front(), boost::asio::buffer(&byte, 1), error);
  EXPECT_TRUE(error) << "the oldest connection was not closed";
}

TEST_F(Http, ClosesOneIdleConnectionForEachNewConnection) {
  std::promise<void> all_are_there;
  boost::asio::post(loop, [&] { all_are_there.get_future().wait(); });
  boost::asio::io_context io;
  std::vector<tcp::socket> idle;
  for (int i = 0; i < 164; ++i) {
    idle.emplace_back(io).connect(
        {boost::asio::ip::address_v4::loopback(), static_cast<unsigned short>(server.port())});
  }
  all_are_there.set_value();
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 200"));
  for (int i = 0; i < 100; ++i) {
    char byte = 0;
    boost::system::error_code error;
    boost::asio::read(idle[static_cast<std::size_t>(i)], boost::asio::buffer(&byte, 1), error);
    EXPECT_TRUE(error) << "connection " << i << " was not closed";
  }
}

TEST_F(Http, NamesAPortInUseAndWhatToDo) {
  const std::string message = testing::message_of<InputError>([&] {
    HttpServer(loop, "127.0.0.1", server.port(),
               pages_only([](std::string_view) { return HttpReply(); }));
  });
  EXPECT_THAT(message, AllOf(HasSubstr(std::to_string(server.port())), HasSubstr("--http-port")));
}

}  // namespace
}  // namespace pfc
