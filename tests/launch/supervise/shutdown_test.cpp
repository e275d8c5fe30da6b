#include "launch/supervise/shutdown.hpp"

#include "support/catch.hpp"

#include <csignal>

namespace trainctl::launch {
namespace {

using Demand = Ending::Demand;
constexpr double kGrace = 4;
constexpr double kStopGrace = 30;

Ending stopping() {
  Ending ending(kGrace);
  CHECK(ending.ask(SIGTERM, 100, kStopGrace) == Demand::stop);
  return ending;
}

}  // namespace

TEST_CASE("ShutdownController: a stop signal gives the ranks the grace period") {
  Ending ending(kGrace);
  CHECK_FALSE(ending.has_begun());
  CHECK_FALSE(ending.is_due(1e9));
  ending = stopping();
  CHECK(ending.has_begun());
  CHECK(ending.signal() == SIGTERM);
  CHECK_FALSE(ending.is_due(129.9));
  CHECK(ending.is_due(130));
}

TEST_CASE("ShutdownController: the second signal kills, a repetition of the first does not") {
  Ending ending = stopping();
  CHECK(ending.ask(SIGTERM, 100.1, kStopGrace) == Demand::nothing);
  CHECK(ending.ask(SIGTERM, 100.3, kStopGrace) == Demand::kill);
  CHECK(stopping().ask(SIGINT, 100, kStopGrace) == Demand::kill);
}

TEST_CASE(
    "ShutdownController: the supervisor's signal counts as the first after a rank was stopped") {
  Ending ending(kGrace);
  ending.follow(SIGTERM, 100, kStopGrace);
  CHECK(ending.signal() == SIGTERM);
  CHECK(ending.ask(SIGUSR1, 105, kStopGrace) == Demand::nothing);
  CHECK(ending.signal() == SIGUSR1);
  CHECK(ending.is_due(130));
  CHECK(ending.ask(SIGUSR1, 106, kStopGrace) == Demand::kill);
}

TEST_CASE("ShutdownController: a failure shortens the grace period for good") {
  Ending ending = stopping();
  ending.shorten(110);
  ending.shorten(112);
  CHECK_FALSE(ending.is_due(113.9));
  CHECK(ending.is_due(114));
  ending.extend(113);
  CHECK(ending.is_due(114));

  Ending late = stopping();
  late.shorten(129);
  CHECK(late.is_due(130));  // never more time than before

  Ending failed(kGrace);
  failed.shorten(100);
  CHECK_FALSE(failed.signal());
  CHECK(failed.is_due(104));
  CHECK(failed.ask(SIGTERM, 101, kStopGrace) == Demand::kill);
  CHECK_FALSE(failed.signal());
}

TEST_CASE("ShutdownController: progress with saving extends the grace period up to a limit") {
  Ending ending = stopping();
  ending.extend(90);  // before the signal
  CHECK(ending.is_due(130));
  ending.extend(129);
  CHECK_FALSE(ending.is_due(158));
  CHECK(ending.is_due(159));
  ending.extend(5000);
  CHECK_FALSE(ending.is_due(699));
  CHECK(ending.is_due(700));

  Ending running(kGrace);
  running.extend(50);
  CHECK_FALSE(running.has_begun());
}

TEST_CASE("default_stop_grace: grows with the duration of steps and saves") {
  CHECK(default_stop_grace(0, 0) == 30);
  CHECK(default_stop_grace(1, 2) == 30);
  CHECK(default_stop_grace(40, 0) == 120);
  CHECK(default_stop_grace(10, 50) == 130);
}

}  // namespace trainctl::launch
