#include "dist/torchrun_store.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

using namespace trainctl;
using namespace trainctl::dist;

namespace {

using std::chrono::milliseconds;

/// The store that torchrun's agent runs.
class AgentStore {
 public:
  AgentStore() {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    server_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }
  [[nodiscard]] TcpStoreAddress address(milliseconds timeout = std::chrono::seconds(60)) const {
    return {"127.0.0.1", server_->getPort(), timeout};
  }
  [[nodiscard]] c10d::TCPStore& store() const { return *server_; }

 private:
  c10::intrusive_ptr<c10d::TCPStore> server_;
};

std::optional<Error> error_of(const TcpStoreAddress& address, const std::string& key) {
  try {
    fetch_text(address, key);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::string error_text(ErrorKind kind, const TcpStoreAddress& address, const std::string& key) {
  const std::optional<Error> error = error_of(address, key);
  REQUIRE(error);
  CHECK(error->kind() == kind);
  return error->what();
}

}  // namespace

TEST_CASE("torchrun store: a published text is fetched, also after it is replaced") {
  const AgentStore agent;
  publish_text(agent.address(), "trainctl/job.0", R"({"port": 4711})");
  CHECK(fetch_text(agent.address(), "trainctl/job.0") == R"({"port": 4711})");
  publish_text(agent.address(), "trainctl/job.0", "");
  CHECK(fetch_text(agent.address(), "trainctl/job.0").empty());
}

TEST_CASE("fetch_text: waits until the text is published") {
  const AgentStore agent;
  std::string found;
  std::thread reader([&] { found = fetch_text(agent.address(), "key"); });
  publish_text(agent.address(), "other", "no");
  publish_text(agent.address(), "key", "yes");
  reader.join();
  CHECK(found == "yes");
}

TEST_CASE("fetch_text: a timeout is an error with the address of the store") {
  const AgentStore agent;
  // The timeout also applies to the connection, which takes longer on a busy machine.
  std::optional<Error> error;
  for (const int limit_s : {1, 4, 16, 64}) {
    error = error_of(agent.address(std::chrono::seconds(limit_s)), "never");
    REQUIRE(error);
    if (error->kind() == ErrorKind::hang) break;
  }
  CHECK(error->kind() == ErrorKind::hang);
  const std::string text = error->what();
  CHECK(text.find(fmt::format("127.0.0.1:{}", agent.address().port)) != std::string::npos);
  CHECK(text.find("rank 0") != std::string::npos);
}

TEST_CASE("fetch_text: a lost store is an error with its address") {
  TcpStoreAddress address;
  {
    const AgentStore agent;
    address = agent.address(milliseconds(300));
  }
  const std::string text = error_text(ErrorKind::rank_failed, address, "key");
  CHECK(text.find(fmt::format("127.0.0.1:{}", address.port)) != std::string::npos);
  CHECK(text.find("check that torchrun is still running") != std::string::npos);
}

TEST_CASE("fetch_text: an oversized value is rejected") {
  const AgentStore agent;
  agent.store().set("key", std::vector<std::uint8_t>(100'000, 'x'));
  CHECK(error_text(ErrorKind::config, agent.address(), "key").find("another program") !=
        std::string::npos);
}
