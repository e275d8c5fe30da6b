#include "launch/supervise/supervisor.hpp"
#include "support/catch.hpp"

#include <csignal>

namespace trainctl::launch {
namespace {

using Action = ShutdownController::Action;
constexpr double kGrace = 4;
constexpr double kStopGrace = 30;

ShutdownController stopping() {
  ShutdownController shutdown(kGrace);
  CHECK(shutdown.handle_signal(SIGTERM, 100, kStopGrace) == Action::stop);
  return shutdown;
}

}  // namespace

TEST_CASE("ShutdownController: a stop signal gives the ranks the grace period") {
  ShutdownController shutdown(kGrace);
  CHECK_FALSE(shutdown.has_begun());
  CHECK_FALSE(shutdown.is_due(1e9));
  shutdown = stopping();
  CHECK(shutdown.has_begun());
  CHECK(shutdown.signal() == SIGTERM);
  CHECK_FALSE(shutdown.is_due(129.9));
  CHECK(shutdown.is_due(130));
}

TEST_CASE("ShutdownController: the second signal kills, a repetition of the first does not") {
  ShutdownController shutdown = stopping();
  CHECK(shutdown.handle_signal(SIGTERM, 100.1, kStopGrace) == Action::none);
  CHECK(shutdown.handle_signal(SIGTERM, 100.3, kStopGrace) == Action::kill);
  CHECK(stopping().handle_signal(SIGINT, 100, kStopGrace) == Action::kill);
}

TEST_CASE(
    "ShutdownController: the supervisor's signal counts as the first after a rank was stopped") {
  ShutdownController shutdown(kGrace);
  shutdown.begin_stop(SIGTERM, 100, kStopGrace);
  CHECK(shutdown.signal() == SIGTERM);
  CHECK(shutdown.handle_signal(SIGUSR1, 105, kStopGrace) == Action::none);
  CHECK(shutdown.signal() == SIGUSR1);
  CHECK(shutdown.is_due(130));
  CHECK(shutdown.handle_signal(SIGUSR1, 106, kStopGrace) == Action::kill);
}

TEST_CASE("ShutdownController: a failure shortens the grace period for good") {
  ShutdownController shutdown = stopping();
  shutdown.shorten(110);
  shutdown.shorten(112);
  CHECK_FALSE(shutdown.is_due(113.9));
  CHECK(shutdown.is_due(114));
  shutdown.extend(113);
  CHECK(shutdown.is_due(114));

  ShutdownController late = stopping();
  late.shorten(129);
  CHECK(late.is_due(130));  // a failure never gives more time

  ShutdownController failed(kGrace);
  failed.shorten(100);
  CHECK_FALSE(failed.signal());
  CHECK(failed.is_due(104));
  CHECK(failed.handle_signal(SIGTERM, 101, kStopGrace) == Action::kill);
  CHECK_FALSE(failed.signal());
}

TEST_CASE("ShutdownController: progress with saving extends the grace period up to a limit") {
  ShutdownController shutdown = stopping();
  shutdown.extend(90);  // the signal comes later
  CHECK(shutdown.is_due(130));
  shutdown.extend(129);
  CHECK_FALSE(shutdown.is_due(158));
  CHECK(shutdown.is_due(159));
  shutdown.extend(5000);
  CHECK_FALSE(shutdown.is_due(699));
  CHECK(shutdown.is_due(700));

  ShutdownController running(kGrace);
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
