#include "train/agreement.hpp"

#include "support/catch.hpp"
#include "support/rank_group.hpp"

#include <array>
#include <vector>

using namespace trainctl;
using train::Agreement;
using train::Stop;

TEST_CASE("one rank follows its own flag and deadline at once") {
  const auto alone = dist::make_single();
  volatile int signal = 0;
  Agreement agreement(*alone, {&signal, 10.0}, Agreement::Cadence::every_step);
  CHECK(agreement.after_step(Agreement::At::step, 9.0) == Stop::none);
  CHECK(agreement.after_step(Agreement::At::step, 10.0) == Stop::time);
  signal = 15;
  CHECK(agreement.after_step(Agreement::At::step, 11.0) == Stop::signal);
}

TEST_CASE("one rank saves when its own clock says so") {
  const auto alone = dist::make_single();
  Agreement agreement(*alone, {}, Agreement::Cadence::every_step);
  agreement.after_step(Agreement::At::step, 1);
  CHECK_FALSE(agreement.save_agreed());
  agreement.wish_save(true);
  agreement.after_step(Agreement::At::step, 2);
  CHECK(agreement.save_agreed());
  agreement.wish_save(false);
  agreement.after_step(Agreement::At::step, 3);
  CHECK_FALSE(agreement.save_agreed());
}

TEST_CASE("all ranks save after the same step, once for a wish of rank 0") {
  RankGroup group(3);
  std::array<std::vector<int>, 3> saved_after;
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    Agreement agreement(*communicator, {}, Agreement::Cadence::every_step);
    auto& steps = saved_after[static_cast<std::size_t>(rank)];
    for (int step = 1; step <= 10; ++step) {
      const bool due = step >= 4 && steps.empty();
      agreement.wish_save(rank == 0 ? due : step == 2);  // rank 0's clock alone counts
      agreement.after_step(Agreement::At::step, 0);
      if (agreement.save_agreed()) steps.push_back(step);
    }
  });
  for (const auto& steps : saved_after) CHECK(steps == std::vector<int>{5});
}

TEST_CASE("all ranks stop after the same step, whoever got the signal") {
  const auto cadence = GENERATE(Agreement::Cadence::every_step, Agreement::Cadence::meeting_points);
  RankGroup group(3);
  std::array<int, 3> stopped_after{};
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    volatile int signal = 0;
    Agreement agreement(*communicator, {&signal, {}}, cadence);
    for (int step = 1; step <= 20; ++step) {
      if (rank == 2 && step == 5) signal = 2;
      const bool logs = step % 4 == 0;
      const Stop stop =
          agreement.after_step(logs ? Agreement::At::meeting_point : Agreement::At::step, 0);
      if (stop == Stop::signal) {
        stopped_after[static_cast<std::size_t>(rank)] = step;
        break;
      }
    }
  });
  const int expected = cadence == Agreement::Cadence::every_step ? 6 : 8;
  CHECK(stopped_after == std::array{expected, expected, expected});
}

TEST_CASE("between epochs the ranks settle at once, and nothing is left under way") {
  RankGroup group(2);
  std::array<Stop, 2> found{};
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    Agreement agreement(*communicator, {nullptr, rank == 0 ? std::optional(5.0) : std::nullopt},
                        Agreement::Cadence::every_step);
    expect(agreement.after_step(Agreement::At::step, 1.0) == Stop::none,
           "stopped after the first step");
    expect(agreement.settle(2.0) == Stop::none, "stopped before the deadline");
    found[static_cast<std::size_t>(rank)] = agreement.settle(6.0);
  });
  CHECK(found == std::array{Stop::time, Stop::time});
}
