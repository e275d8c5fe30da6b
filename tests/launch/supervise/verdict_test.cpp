#include "launch/supervise/verdict.hpp"

#include "support/catch.hpp"

#include <csignal>

namespace trainctl::launch {
namespace {

RankEnd finished(int rank) { return {.rank = rank, .exit_code = 0, .finished = true}; }
RankEnd killed(int rank, int round) {
  return {.rank = rank, .seen_in_round = round, .signal = SIGKILL};
}
RankEnd reported(int rank, int round, FailureReport report) {
  return {.rank = rank, .seen_in_round = round, .exit_code = report.kind, .report = report};
}

int first_rank(std::vector<RankEnd> ends) {
  return derive_outcome({std::move(ends), {}, "host"}).first_failure->rank;
}

}  // namespace

TEST_CASE("verdict: the rank that failed first is the cause, the others are consequences") {
  const Outcome outcome = derive_outcome(
      {{reported(0, 5, {9, "later"}), reported(1, 3, {11, "disk full"}), finished(2)}, {}, "host"});
  CHECK(outcome.exit_code == 11);
  CHECK(outcome.first_failure->rank == 1);
  CHECK(outcome.first_failure->host == "host");
  REQUIRE(outcome.consequences.size() == 1);
  CHECK(outcome.consequences[0].rank == 0);
}

TEST_CASE(
    "verdict: a lost peer is a consequence of what killed the peer, even if it was seen earlier") {
  CHECK(first_rank({reported(0, 3, {7, "connection reset by peer"}), killed(1, 9)}) == 1);
  CHECK(first_rank({reported(0, 3, {1, "connection reset by peer"}), killed(1, 9)}) == 1);
  CHECK(first_rank({reported(0, 3, {7, "lost"}), reported(1, 4, {7, "lost"}),
                    reported(2, 9, {9, "bad row"})}) == 2);
  CHECK(first_rank({{.rank = 0, .seen_in_round = 2, .exit_code = 1}, killed(1, 9)}) == 1);
}

TEST_CASE("verdict: a lost node is the cause of lost peers") {
  const RankEnd lost{.rank = 2,
                     .host = "far",
                     .seen_in_round = 9,
                     .node_lost = true,
                     .report = FailureReport{7, "node 1 (far) is lost: its connection was closed"}};
  CHECK_FALSE(lost_peer(lost));
  const Outcome outcome =
      derive_outcome({{reported(0, 3, {7, "connection reset by peer"}), lost}, {}, "near"});
  CHECK(outcome.exit_code == 7);
  CHECK(outcome.first_failure->rank == 2);
  CHECK(outcome.first_failure->host == "far");
  CHECK_THAT(outcome.message, Contains("node 1 (far) is lost"));
  CHECK(first_rank({reported(0, 3, {1, "connection reset by peer"}), lost}) == 2);
  CHECK(outcome.consequences.at(0).host == "near");
}

TEST_CASE("verdict: a later kill does not replace a reported cause") {
  CHECK(first_rank({reported(0, 3, {9, "bad row"}), killed(1, 9)}) == 0);
  CHECK(first_rank({killed(0, 3), reported(1, 4, {7, "lost"})}) == 0);
  CHECK(first_rank({reported(0, 3, {7, "lost"}), reported(1, 4, {7, "lost"})}) == 0);
}

TEST_CASE("verdict: of two failures in one round, the one by a signal comes first") {
  CHECK(first_rank({reported(0, 4, {11, "disk full"}), killed(1, 4)}) == 1);
}

TEST_CASE("verdict: exits caused by the supervisor's signals are not failures") {
  CHECK_FALSE(is_failure({.signal = SIGTERM, .sigterm_sent = true}));
  CHECK_FALSE(is_failure({.signal = SIGKILL, .sigkill_sent = true}));
  CHECK_FALSE(is_failure({.exit_code = 0, .sigterm_sent = true}));
  CHECK_FALSE(is_failure({.exit_code = 143, .sigterm_sent = true}));
  CHECK(is_failure({.signal = SIGKILL, .sigterm_sent = true}));
  CHECK(is_failure({.signal = SIGSEGV, .sigterm_sent = true, .sigkill_sent = true}));
  CHECK(is_failure({.exit_code = 0}));
  CHECK(is_failure({.exit_code = 9, .sigterm_sent = true}));
}

TEST_CASE("verdict: exit code 127 of a worker means that a library could not be loaded") {
  const Outcome outcome = derive_outcome({{{.exit_code = 127, .started = true}}, {}, "host"});
  CHECK_THAT(outcome.message, Contains("a shared library is missing or cannot be loaded"));
}

TEST_CASE("verdict: a rank that exits on a stop signal has not failed") {
  for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2, SIGHUP}) {
    CHECK_FALSE(is_failure({.signal = signal}));
    CHECK(stop_signal_of({.signal = signal}) == SIGTERM);
    CHECK(stopped_without_checkpoint({.signal = signal}));
  }
  CHECK(stop_signal_of({.signal = SIGINT}) == SIGINT);
  CHECK(stop_signal_of({.exit_code = 130}) == SIGINT);
  CHECK(stop_signal_of({.exit_code = 75}) == SIGTERM);
  CHECK_FALSE(stopped_without_checkpoint({.exit_code = 75}));
  CHECK_FALSE(stopped_without_checkpoint({.exit_code = 130}));
  CHECK(stopped_without_checkpoint({.exit_code = 143}));
  CHECK_FALSE(stop_signal_of({.signal = SIGTERM, .report = FailureReport{8, "hangs"}}));
  CHECK_FALSE(stop_signal_of({.signal = SIGKILL}));
  CHECK_FALSE(stop_signal_of({.exit_code = 0}));
}

TEST_CASE("verdict: a stop is 75 only if every rank has saved, and 130 for SIGINT") {
  const auto code = [](std::vector<RankEnd> ends, int signal = SIGTERM) {
    return derive_outcome({std::move(ends), signal, "host"}).exit_code;
  };
  const RankEnd saved{.exit_code = 75, .finished = true};
  const RankEnd unsaved{.exit_code = 143};
  CHECK(code({saved, saved}) == 75);
  CHECK(code({saved, saved}, SIGUSR1) == 75);
  CHECK(code({saved, saved}, SIGINT) == 130);
  CHECK(code({saved, unsaved}) == 143);
  CHECK(code({saved, {.exit_code = 130}}) == 130);
  CHECK(code({saved, finished(1)}) == 75);
  CHECK(code({finished(0), finished(1)}) == 143);
  CHECK(code({saved, {.signal = SIGKILL, .sigkill_sent = true}}) == 143);
  CHECK(code({saved, killed(1, 3)}) == 143);
  CHECK(code({saved, {.signal = SIGTERM, .sigterm_sent = true}}) == 143);
}

TEST_CASE("verdict: the message of a stop reports how the ranks exited") {
  const auto text = [](std::vector<RankEnd> ends) {
    return derive_outcome({std::move(ends), SIGTERM, "host"}).message;
  };
  CHECK(text({{.exit_code = 75}}) == "stopped by SIGTERM after a checkpoint was saved");
  CHECK(text({{.exit_code = 143}}) == "stopped by SIGTERM");
  CHECK(text({finished(0)}) == "stopped by SIGTERM, but all ranks had finished");
  CHECK(
      text({{.rank = 0, .exit_code = 143}, {.rank = 1, .signal = SIGKILL, .sigkill_sent = true}}) ==
      "stopped by SIGTERM; rank 1 had not exited and got SIGKILL");
}

TEST_CASE("verdict: a crash is the cause of an unexpected error, an abort is not") {
  const auto crashed = [](int signal) {
    return RankEnd{.rank = 1, .seen_in_round = 9, .signal = signal};
  };
  CHECK(first_rank({reported(0, 3, {1, "reset by peer"}), crashed(SIGSEGV)}) == 1);
  CHECK(first_rank({reported(0, 3, {1, "reset by peer"}), crashed(SIGABRT)}) == 0);
  CHECK(first_rank({reported(0, 3, {7, "reset by peer"}), crashed(SIGABRT)}) == 1);
}

TEST_CASE("verdict: a process that cannot be killed is reported") {
  const Outcome outcome = derive_outcome({{{.rank = 0, .sigkill_sent = true}}, {}, "host"});
  CHECK(outcome.exit_code == 7);
  CHECK_THAT(outcome.message, Contains("cannot be killed"));
}

TEST_CASE("verdict: a worker's message cannot add lines or control sequences") {
  const Outcome outcome = derive_outcome({{reported(0, 1, {9, "one\n\x1b[2Jtwo"})}, {}, "host"});
  CHECK(outcome.first_failure->message == "one; \\x1b[2Jtwo");
}

TEST_CASE("verdict: the hint of a rank's message keeps its line") {
  const Outcome outcome =
      derive_outcome({{reported(0, 1, {9, "one\ntwo\nhint: th\x1bree"})}, {}, "host"});
  CHECK(outcome.first_failure->message == "one; two\nhint: th\\x1bree");
  CHECK_THAT(outcome.message, EndsWith(": one; two\nhint: th\\x1bree"));
}

TEST_CASE("signal_name: returns names of signals") {
  CHECK(signal_name(SIGKILL) == "SIGKILL");
  CHECK(signal_name(SIGUSR1) == "SIGUSR1");
  CHECK(signal_name(61) == "signal 61");
}

}  // namespace trainctl::launch
