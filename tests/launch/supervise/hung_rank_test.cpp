#include "launch/supervise/hang_detection.hpp"
#include "launch/supervise/rank.hpp"
#include "support/catch.hpp"

#include <array>

namespace trainctl::launch {
namespace {

struct Page {
  events::Heartbeat heartbeat{};
};

/// A rank with a heartbeat at an artificial time and a limit of a minute for steps.
class FakeRank final : private Page, public RankState {
 public:
  FakeRank(int rank, double stamped_at, events::Phase phase = events::Phase::train)
      : RankState(rank, heartbeat, 60) {
    start();
    heartbeat.phase = static_cast<std::int32_t>(phase);
    heartbeat.loaded = 1;
    heartbeat.monotonic_ns = 1;
    poll_heartbeat(stamped_at);
  }
  void stop() { is_stopped_ = true; }
  void wait_in(const char* collective) { heartbeat.begin_collective(collective); }

 private:
  [[nodiscard]] bool is_stopped() const override { return is_stopped_; }

  bool is_stopped_ = false;
};

}  // namespace

TEST_CASE("find_hung_rank: of stopped ranks, selects the one that was stopped first") {
  FakeRank late(0, 95);
  FakeRank early(1, 30);
  FakeRank later(2, 35);
  late.stop();
  early.stop();
  later.stop();
  const std::array<RankState*, 3> ranks{&late, &later, &early};
  const auto found = find_hung_rank(ranks, 100);
  REQUIRE(found.has_value());
  CHECK(found->rank == &early);
  CHECK(found->stall.stopped);
  CHECK(found->stall.seconds == Approx(70));
}

TEST_CASE("find_hung_rank: selects no rank that waits for a stopped one within its limit") {
  FakeRank stopped(0, 50);
  FakeRank waiting(1, 30);
  stopped.stop();
  const std::array<RankState*, 2> ranks{&waiting, &stopped};
  CHECK_FALSE(find_hung_rank(ranks, 100).has_value());
  const auto found = find_hung_rank(ranks, 111);
  REQUIRE(found.has_value());
  CHECK(found->rank == &stopped);
}

TEST_CASE("find_hung_rank: at startup, selects the rank that the others wait for") {
  FakeRank waiting(0, 10, events::Phase::startup);
  FakeRank looping(1, 12, events::Phase::startup);
  waiting.wait_in("broadcast of the number of threads");
  const std::array<RankState*, 2> ranks{&waiting, &looping};
  CHECK_FALSE(find_hung_rank(ranks, 611).has_value());
  const auto found = find_hung_rank(ranks, 613);
  REQUIRE(found.has_value());
  CHECK(found->rank == &looping);
}

}  // namespace trainctl::launch
