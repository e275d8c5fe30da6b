#include "train/parallel/stop_consensus.hpp"

#include "support/catch.hpp"
#include "support/noted_communicator.hpp"
#include "support/rank_group.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace trainctl;
using train::Stop;
using train::StopConsensus;

namespace {

/// Ranks whose steps take a given time on rank 0's clock. The clocks of the others do not advance,
/// because only rank 0 determines the interval.
struct Paced {
  int world = 2;
  int steps = 60;
  std::function<double(int step)> step_s = [](int) { return 0.004; };
  /// Called after each step; true ends the rank's steps.
  std::function<bool(int rank, int step, StopConsensus&, double now)> after = {};
  /// Called before each step.
  std::function<void(int rank, int step, StopConsensus&)> before = {};
};

/// Returns the steps after which each rank started an exchange.
std::vector<std::vector<int>> exchanges_of(const Paced& run,
                                           const volatile int* signals = nullptr) {
  std::vector<std::vector<int>> begun(static_cast<std::size_t>(run.world));
  RankGroup group(run.world);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> inner) {
    std::vector<std::string> exchanges;
    NotedCommunicator communicator(std::move(inner), exchanges);
    const volatile int* signal = signals == nullptr ? nullptr : signals + rank;
    StopConsensus agreement(communicator, {signal, {}}, StopConsensus::Cadence::by_time);
    double now = 0;
    bool over = false;
    for (int step = 1; step <= run.steps && !over; ++step) {
      if (run.before) run.before(rank, step, agreement);
      if (rank == 0) now += run.step_s(step);
      const Stop stop = agreement.after_step(StopConsensus::At::step, now);
      over = stop != Stop::none || (run.after && run.after(rank, step, agreement, now));
      begun[static_cast<std::size_t>(rank)].resize(exchanges.size(), step);
    }
  });
  return begun;
}

/// The first of two ranks, whose collectives are recorded when they start and when they are waited
/// for. The other rank requests nothing.
class FakeCommunicator final : public dist::Communicator {
 public:
  explicit FakeCommunicator(std::vector<std::string>& calls) : calls_(calls) {}
  [[nodiscard]] dist::RankInfo rank_info() const override { return {0, 2}; }
  dist::Pending start_sum(const at::Tensor& /*tensor*/, const std::string& /*what*/) override {
    calls_.emplace_back("start");
    return [this] { calls_.emplace_back("wait"); };
  }
  dist::Pending start_broadcast(const at::Tensor& /*tensor*/, int /*root*/,
                                const std::string& /*what*/) override {
    return [] {};
  }
  dist::Pending start_all_gather(const at::Tensor& /*all*/, const at::Tensor& /*mine*/,
                                 const std::string& /*what*/) override {
    return [] {};
  }
  void broadcast(const at::Tensor& /*tensor*/, const std::string& /*what*/) override {}
  void broadcast_coalesced(const std::vector<at::Tensor>& /*tensors*/,
                           const std::string& /*what*/) override {}
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor,
                                     const std::string& /*what*/) override {
    return {tensor};
  }
  std::unique_ptr<dist::GradSync> sync_gradients(std::vector<at::Tensor> /*parameters*/,
                                                 const dist::BucketOptions& /*buckets*/) override {
    return std::make_unique<dist::GradSync>();
  }

 private:
  std::vector<std::string>& calls_;
};

void check_all(const std::vector<std::vector<int>>& found, const std::vector<int>& expected) {
  for (const auto& rank : found) CHECK(rank == expected);
}

}  // namespace

TEST_CASE("StopConsensus: all ranks learn the saves that have ended on rank 0 at the same step") {
  constexpr int kWorld = 3;
  std::array<std::vector<std::int32_t>, kWorld> seen;
  (void)exchanges_of(
      {.world = kWorld,
       .steps = 60,
       .after =
           [&](int rank, int, StopConsensus& consensus, double) {
             seen.at(static_cast<std::size_t>(rank)).push_back(consensus.ended_saves());
             return false;
           },
       .before =
           [](int rank, int step, StopConsensus& consensus) {
             consensus.report_saves(rank == 0 ? step / 10 : 100 + step);
           }});
  CHECK(seen[0].front() == 0);
  CHECK(seen[0].back() >= 4);  // at most 16 steps ago
  CHECK(std::ranges::is_sorted(seen[0]));
  CHECK(seen[1] == seen[0]);
  CHECK(seen[2] == seen[0]);
}

TEST_CASE("StopConsensus: a single rank follows its own signal and deadline at once") {
  const auto alone = dist::make_single();
  volatile int signal = 0;
  StopConsensus agreement(*alone, {&signal, 10.0}, StopConsensus::Cadence::by_time);
  CHECK(agreement.after_step(StopConsensus::At::step, 9.0) == Stop::none);
  CHECK(agreement.after_step(StopConsensus::At::step, 10.0) == Stop::time);
  signal = 15;
  CHECK(agreement.after_step(StopConsensus::At::step, 11.0) == Stop::signal);
}

TEST_CASE("StopConsensus: a single rank saves by its own clock") {
  const auto alone = dist::make_single();
  StopConsensus agreement(*alone, {}, StopConsensus::Cadence::by_time);
  agreement.after_step(StopConsensus::At::step, 1);
  CHECK_FALSE(agreement.save_agreed());
  agreement.request_save(true);
  agreement.after_step(StopConsensus::At::step, 2);
  CHECK(agreement.save_agreed());
  agreement.request_save(false);
  agreement.after_step(StopConsensus::At::step, 3);
  CHECK_FALSE(agreement.save_agreed());
}

TEST_CASE("StopConsensus: all ranks save after the same step, once per request of rank 0") {
  RankGroup group(3);
  std::array<std::vector<int>, 3> saved_after;
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    StopConsensus agreement(*communicator, {}, StopConsensus::Cadence::by_time);
    auto& steps = saved_after[static_cast<std::size_t>(rank)];
    for (int step = 1; step <= 10; ++step) {
      const bool due = step >= 4 && steps.empty();
      agreement.request_save(rank == 0 ? due : step == 2);  // only rank 0's clock counts
      agreement.after_step(StopConsensus::At::step, 0);
      if (agreement.save_agreed()) steps.push_back(step);
    }
  });
  for (const auto& steps : saved_after) CHECK(steps == std::vector<int>{5});
}

TEST_CASE("StopConsensus: all ranks stop after the same step for a signal on any rank") {
  const auto cadence =
      GENERATE(StopConsensus::Cadence::by_time, StopConsensus::Cadence::sync_points);
  RankGroup group(3);
  std::array<int, 3> stopped_after{};
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    volatile int signal = 0;
    StopConsensus agreement(*communicator, {&signal, {}}, cadence);
    for (int step = 1; step <= 20; ++step) {
      if (rank == 2 && step == 5) signal = 2;
      const bool logs = step % 4 == 0;
      const Stop stop =
          agreement.after_step(logs ? StopConsensus::At::sync_point : StopConsensus::At::step, 0);
      if (stop == Stop::signal) {
        stopped_after[static_cast<std::size_t>(rank)] = step;
        break;
      }
    }
  });
  // Exchanged after step 8, and read at the next synchronization point.
  const int expected = cadence == StopConsensus::Cadence::by_time ? 6 : 12;
  CHECK(stopped_after == std::array{expected, expected, expected});
}

TEST_CASE("StopConsensus: a synchronization point reads the exchange of the one before it") {
  std::vector<std::string> calls;
  FakeCommunicator communicator(calls);
  volatile int signal = 0;
  StopConsensus agreement(communicator, {&signal, {}}, StopConsensus::Cadence::sync_points);
  const auto meet = [&] { return agreement.after_step(StopConsensus::At::sync_point, 0); };
  CHECK(meet() == Stop::none);
  CHECK(agreement.after_step(StopConsensus::At::step, 0) == Stop::none);
  CHECK(calls == std::vector<std::string>{"start"});  // the host waits for nothing
  agreement.request_save(true);
  CHECK(meet() == Stop::none);
  CHECK_FALSE(agreement.save_agreed());
  CHECK(calls == std::vector<std::string>{"start", "wait", "start"});
  CHECK(meet() == Stop::none);
  CHECK(agreement.save_agreed());
  agreement.request_save(false);
  signal = 15;
  CHECK(meet() == Stop::none);
  CHECK_FALSE(agreement.save_agreed());
  CHECK(meet() == Stop::signal);
  CHECK(agreement.settle(0) == Stop::signal);  // between epochs it waits
  CHECK(calls.back() == "wait");
}

TEST_CASE("StopConsensus: between epochs the ranks agree at once, with no exchange pending") {
  RankGroup group(2);
  std::array<Stop, 2> found{};
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    StopConsensus agreement(*communicator, {nullptr, rank == 0 ? std::optional(5.0) : std::nullopt},
                            StopConsensus::Cadence::by_time);
    expect(agreement.after_step(StopConsensus::At::step, 1.0) == Stop::none,
           "stopped after the first step");
    expect(agreement.settle(2.0) == Stop::none, "stopped before the deadline");
    found[static_cast<std::size_t>(rank)] = agreement.settle(6.0);
  });
  CHECK(found == std::array{Stop::time, Stop::time});
}

TEST_CASE("StopConsensus: short steps exchange about every 50 ms, long steps after each one") {
  for (const int world : {2, 3}) {
    INFO(world << " ranks");
    Paced run{.world = world, .steps = 56};
    run.step_s = [](int step) { return step <= 40 ? 0.004 : 0.1; };
    check_all(exchanges_of(run), {1, 2, 4, 8, 16, 28, 40, 52, 53, 54, 55, 56});
  }
}

TEST_CASE("StopConsensus: steps of at least 50 ms exchange after each, very short ones after 16") {
  Paced run{.steps = 6};
  run.step_s = [](int) { return 0.06; };
  check_all(exchanges_of(run), {1, 2, 3, 4, 5, 6});
  run.steps = 100;
  run.step_s = [](int) { return 1e-6; };
  check_all(exchanges_of(run), {1, 2, 4, 8, 16, 32, 48, 64, 80, 96});
}

TEST_CASE("StopConsensus: after an unusually long step the ranks exchange more often again") {
  Paced run{.steps = 40};
  run.step_s = [](int step) { return step == 32 ? 0.02 : 1e-6; };
  check_all(exchanges_of(run), {1, 2, 4, 8, 16, 32, 33, 35, 39});
}

TEST_CASE("StopConsensus: a signal between two exchanges stops all ranks after the same step") {
  for (const int world : {2, 3}) {
    INFO(world << " ranks");
    std::array<volatile int, 3> signals{};
    std::array<int, 3> last{};
    Paced run{.world = world};
    run.before = [&](int rank, int step, StopConsensus&) {
      last[static_cast<std::size_t>(rank)] = step;
      if (rank == world - 1 && step == 30) signals[static_cast<std::size_t>(rank)] = 2;
    };
    check_all(exchanges_of(run, signals.data()), {1, 2, 4, 8, 16, 28, 40});
    for (int rank = 0; rank < world; ++rank) CHECK(last[static_cast<std::size_t>(rank)] == 41);
  }
}

TEST_CASE("StopConsensus: a save request between two exchanges is granted once on all ranks") {
  std::array<std::vector<int>, 3> saved_after;
  Paced run{.world = 3};
  run.before = [&](int rank, int step, StopConsensus& agreement) {
    const auto& steps = saved_after[static_cast<std::size_t>(rank)];
    const std::size_t due = step >= 45 ? 2 : step >= 30 ? 1 : 0;
    agreement.request_save(rank == 0 && steps.size() < due);
  };
  run.after = [&](int rank, int step, StopConsensus& agreement, double) {
    if (agreement.save_agreed()) saved_after[static_cast<std::size_t>(rank)].push_back(step);
    return false;
  };
  check_all(exchanges_of(run), {1, 2, 4, 8, 16, 28, 40, 52});
  for (const auto& steps : saved_after) CHECK(steps == std::vector<int>{41, 53});
}

TEST_CASE("StopConsensus: ranks can settle between two exchanges and during one") {
  for (const int at : {28, 30}) {
    Paced run{.steps = 45};
    run.after = [at](int, int step, StopConsensus& agreement, double now) {
      return step == at && agreement.settle(now) != Stop::none;
    };
    check_all(exchanges_of(run), {1, 2, 4, 8, 16, 28, at, at + 12});
  }
}

TEST_CASE(
    "StopConsensus: a new phase exchanges after its first step, also with an exchange pending") {
  Paced run{.steps = 40};
  run.before = [](int, int step, StopConsensus& agreement) {
    if (step == 30) agreement.begin_phase();
  };
  check_all(exchanges_of(run), {1, 2, 4, 8, 16, 28, 30, 31, 33, 37});
  run.before = [](int, int step, StopConsensus& agreement) {
    if (step == 29) agreement.begin_phase();  // with an exchange pending
  };
  check_all(exchanges_of(run), {1, 2, 4, 8, 16, 28, 29, 30, 32, 36});
}
