#include "base/files.hpp"
#include "engine/entry.h"
#include "support/catch.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

using namespace trainctl;

extern "C" int trainctl_engine_v1(const TrainctlEngineRequest* request);

namespace {

struct Answer {
  int code = 0;
  std::string text;
};

Answer send_request(const std::string& text) {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const Fd test_end(ends[0]);
  Fd engine_end(ends[1]);
  write_all(test_end.get(), text, "the request");
  ::shutdown(test_end.get(), SHUT_WR);
  const TrainctlEngineRequest request{.run_dir = "",
                                      .mode = "exchange",
                                      .rank = 0,
                                      .world_size = 1,
                                      .local_rank = 0,
                                      .local_world_size = 1,
                                      .event_fd = -1,
                                      .heartbeat_fd = -1,
                                      .store_fd = engine_end.get(),
                                      .stop_signal = nullptr,
                                      .accelerator = nullptr};
  Answer answer;
  answer.code = trainctl_engine_v1(&request);
  engine_end.reset();
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = ::read(test_end.get(), buffer.data(), buffer.size())) > 0;)
    answer.text.append(buffer.data(), static_cast<std::size_t>(count));
  return answer;
}

}  // namespace

TEST_CASE("exchange: an unreachable store is an error with its address and exit code") {
  // Nothing listens on port 1 of the loopback interface.
  const Answer answer = send_request(
      R"({"do": "fetch", "host": "127.0.0.1", "port": 1, "timeout_s": 0.5, "key": "trainctl/a"})");
  CHECK(answer.code == 7);
  CHECK(answer.text.find("127.0.0.1:1") != std::string::npos);
}

TEST_CASE("exchange: an invalid request is an error") {
  for (const char* request :
       {"", "{", "[]", R"({"do": "fetch"})",
        R"({"do": "burn", "host": "h", "port": 1, "timeout_s": 1, "key": "k"})",
        R"({"do": "fetch", "host": 5, "port": 1, "timeout_s": 1, "key": "k"})"}) {
    CAPTURE(request);
    const Answer answer = send_request(request);
    CHECK(answer.code == 1);
    CHECK_FALSE(answer.text.empty());
  }
}
