#include "base/error.hpp"
#include "launch/nodes/node_link.hpp"
#include "launch/rendezvous/rendezvous.hpp"
#include "study/fake_run.hpp"
#include "study/nodes/node_run.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"

#include <poll.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl::study {
namespace {

/// Node 0 of a run of two nodes with one rank each. It asks the other node to start its ranks.
class WelcomingNode {
 public:
  explicit WelcomingNode(launch::Welcome welcome)
      : welcome_(std::move(welcome)),
        listener_({.endpoint = {"127.0.0.1", 0}, .run_id = "test", .world_size = 2, .nodes = 2}),
        service_([this] {
          while (!over_) serve(steady_clock().now());
        }) {}
  ~WelcomingNode() {
    over_ = true;
    service_.join();
  }
  WelcomingNode(const WelcomingNode&) = delete;
  WelcomingNode& operator=(const WelcomingNode&) = delete;

  /// Returns the plan of the other node.
  [[nodiscard]] NodePlan plan() const {
    NodePlan plan;
    plan.nodes = 2;
    plan.node = 1;
    plan.endpoint = listener_.endpoint();
    plan.run_id = "test";
    return plan;
  }

 private:
  void serve(double now) {
    std::vector<pollfd> polls;
    listener_.append_to(polls);
    if (link_) link_->append_to(polls);
    ::poll(polls.data(), polls.size(), 5);
    listener_.serve(now);
    for (launch::Listener::Arrival& node : listener_.take_arrivals())
      link_.emplace(std::move(node.socket), launch::KeepaliveTimes{}, now);
    if (!link_) return;
    link_->serve(now, [&](const launch::NodeMessage& message) {
      if (std::holds_alternative<launch::NodeHello>(message)) link_->send(welcome_, now);
    });
  }

  launch::Welcome welcome_;
  launch::Listener listener_;
  std::optional<launch::NodeLink> link_;
  std::atomic<bool> over_ = false;
  std::thread service_;  // uses all other members
};

}  // namespace

TEST_CASE("join_run: the printed lines contain the address of node 0, the ranks and the folder") {
  const TempFolder folder;
  const fs::path run_dir = folder / "run";
  put_text(run_dir / FolderLock::kFileName, "lock");
  const WelcomingNode coordinator({run_dir.string(), "lock", 1});
  RunRequest request = fake_run::request(folder, "exit 1\n");
  request.loaded.experiment.trainer.devices.value = 2;  // node 0 expects one rank and rejects these
  request.nodes = coordinator.plan();
  std::vector<std::string> lines;
  const PrintLine print = [&lines](const std::string& line) { lines.push_back(line); };
  CHECK_THROWS_WITH(join_run(request, print, steady_clock()), Contains("rank 2 cannot join"));
  const std::string address = launch::to_text(request.nodes->endpoint);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == fmt::format("node 1 of 2 is connecting to node 0 at {}", address));
  CHECK(lines[1] == fmt::format("node 1 of 2 has joined node 0 at {}: ranks 2 to 3 in {}", address,
                                run_dir.string()));
}

}  // namespace trainctl::study
