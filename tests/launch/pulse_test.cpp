#include "launch/pulse.hpp"

#include "base/clock.hpp"
#include "launch/job.hpp"
#include "support/catch.hpp"

namespace trainctl::launch {
namespace {

using events::Phase;

/// A rank whose stamps are seen at invented times.
class Watched {
 public:
  void stamp(Phase phase, double at) {
    page_.phase = static_cast<std::int32_t>(phase);
    page_.monotonic_ns = ++stamps_;
    pulse_.see(page_, at);
  }
  [[nodiscard]] bool is_silent(double at) {
    pulse_.see(page_, at);
    return pulse_.silence(at).has_value();
  }

 private:
  events::Heartbeat page_{};
  std::int64_t stamps_ = 0;
  Pulse pulse_;
};

/// Runs twenty times as fast: a minute of silence is three seconds, more than the rank that goes on
/// is kept waiting for a core.
class FastClock final : public Clock {
 public:
  [[nodiscard]] double now() const override { return 20 * steady_clock().now(); }
};

}  // namespace

TEST_CASE("a rank that stamps no more is silent after a minute") {
  Watched rank;
  for (int i = 0; i < 100; ++i) rank.stamp(Phase::train, i * 0.1);
  CHECK_FALSE(rank.is_silent(60));
  CHECK(rank.is_silent(70.1));
  rank.stamp(Phase::train, 71);
  CHECK_FALSE(rank.is_silent(72));
}

TEST_CASE("long steps are given ten of their kind") {
  Watched rank;
  for (int i = 0; i < 10; ++i) rank.stamp(Phase::train, i * 20);
  CHECK_FALSE(rank.is_silent(180 + 199));
  CHECK(rank.is_silent(180 + 201));
}

TEST_CASE("a first step that is longer than a minute gives the second ten times as long") {
  Watched rank;
  rank.stamp(Phase::startup, 0);
  rank.stamp(Phase::train, 90);
  CHECK_FALSE(rank.is_silent(90 + 899));
  CHECK(rank.is_silent(90 + 901));
}

TEST_CASE("start, saving and the end may take as long as they like") {
  for (const Phase phase : {Phase::startup, Phase::checkpoint, Phase::shutdown}) {
    Watched rank;
    rank.stamp(Phase::train, 1);
    rank.stamp(phase, 2);
    CHECK_FALSE(rank.is_silent(1e6));
  }
  CHECK_FALSE(Watched().is_silent(1e6));
  Watched validating;
  validating.stamp(Phase::validate, 1);
  CHECK(validating.is_silent(100));
}

TEST_CASE("a supervisor that was stopped itself looks again before it blames") {
  Watched rank;
  rank.stamp(Phase::train, 1);
  rank.stamp(Phase::train, 5000);
  CHECK_FALSE(rank.is_silent(5001));
}

TEST_CASE("a job whose rank hangs ends with 8 and names it; one that goes on is left alone") {
  const FastClock clock;
  Job job({"catch_term", "hello", "1:step=41", "1:wait", "train"}, 2);
  job.spec.grace_s = 20;
  job.spec.init_timeout_s = 60'000;
  const Outcome outcome = supervise(
      job.spec, [](int, const events::Event&) {}, [] {}, clock);
  CHECK(outcome.exit_code == 8);
  CHECK(outcome.verdict == "hang");
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK(outcome.first_failure->step == 41);
  CHECK_THAT(outcome.message, Contains("no sign of life"));
  CHECK(job.survivors() == 0);
}

}  // namespace trainctl::launch
