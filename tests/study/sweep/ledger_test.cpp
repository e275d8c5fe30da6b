#include "study/sweep/ledger.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <limits>

using namespace trainctl;
using namespace trainctl::study;
using report::SweepStatus;

namespace {

std::vector<PlannedRun> planned(int runs) {
  std::vector<PlannedRun> plan;
  for (int i = 0; i < runs; ++i)
    plan.push_back({fmt::format("{:016x}", i), 7, {{"optimizer.lr", fmt::format("0.{}", i + 1)}}});
  return plan;
}

Json kind(const char* name) {
  Json definition = Json::object();
  definition["kind"] = name;
  return definition;
}

Ledger with_runs(const fs::path& file, int runs) {
  Ledger ledger(file);
  ledger.define(kind("grid"), planned(runs));
  return ledger;
}

RunEnd good(double value) {
  return {.exit_code = 0, .epochs = 3, .wall_s = 2, .value = value, .metrics = {{"val/loss", 1.0}}};
}

const std::vector<std::int64_t> kFirst{1};

using LedgerStep = std::function<void(Ledger&)>;

/// The life cycle of three runs; each call is one transaction.
const std::vector<LedgerStep>& life() {
  static const std::vector<LedgerStep> steps{
      [](Ledger& ledger) { ledger.define(kind("grid"), planned(3)); },
      [](Ledger& ledger) {
        ledger.set_target(std::vector<std::int64_t>{1, 2, 3}, 0);
      },
      [](Ledger& ledger) { ledger.claim(1, "me", ""); },
      [](Ledger& ledger) { ledger.claim(2, "me", "abc"); },
      [](Ledger& ledger) { ledger.end(1, good(0.5), false); },
      [](Ledger& ledger) { ledger.put_back(2, Ledger::Reason::lacked_resources); },
      [](Ledger& ledger) { ledger.claim(2, "me", "abc"); },
      [](Ledger& ledger) { ledger.end(2, {.exit_code = 6, .message = "nan"}, true); },
      [](Ledger& ledger) { ledger.prune(kFirst); },
  };
  return steps;
}

std::string state_of(const Ledger& ledger) {
  std::string text;
  for (const LedgerRun& run : ledger.runs())
    text += fmt::format("{}:{}/{}/{} ", run.number, enum_name(run.status), run.target, run.rung);
  return text;
}

/// Leaves the ledger of a process that was killed between two calls or within one.
void killed_after(const fs::path& file, std::size_t steps) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    try {
      Ledger ledger(file);
      for (std::size_t i = 0; i < steps; ++i) life()[i](ledger);
      ::kill(::getpid(), SIGKILL);
    } catch (...) {
      ::_exit(1);
    }
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  REQUIRE(WIFSIGNALED(status));
}

}  // namespace

TEST_CASE("Ledger: runs are the same after reopening") {
  const TempFolder folder;
  with_runs(folder / "sweep.sqlite", 2);
  const Ledger again(folder / "sweep.sqlite");
  CHECK(again.definition() == kind("grid"));
  const auto runs = again.runs();
  REQUIRE(runs.size() == 2);
  CHECK(runs[1].number == 2);
  CHECK(runs[1].plan.seed == 7);
  CHECK(runs[1].plan.overrides == report::Overrides{{"optimizer.lr", "0.2"}});
  CHECK(runs[1].status == SweepStatus::pending);
  CHECK(runs[1].target == -1);
}

TEST_CASE("Ledger: a run can be claimed once") {
  const TempFolder folder;
  Ledger ledger = with_runs(folder / "sweep.sqlite", 1);
  CHECK_THROWS_WITH(ledger.claim(1, "me", ""), Contains("as running: another sweep"));
  ledger.set_target(kFirst, 0);
  ledger.claim(1, "me", "");
  try {
    ledger.claim(1, "you", "");
    FAIL("claimed twice");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::resource);
  }
  CHECK(ledger.runs()[0].holder == "me");
}

TEST_CASE("Ledger: another ranking updates the values of all runs") {
  const TempFolder folder;
  {
    Ledger ledger = with_runs(folder / "sweep.sqlite", 2);
    CHECK(ledger.ranking().is_null());
    ledger.set_target(kFirst, 0);
    ledger.claim(1, "me", "");
    ledger.end(1, good(0.25), true);
    ledger.define(kind("list"), std::vector{planned(2)[1]});
    REQUIRE(ledger.all_runs().size() == 2);
    ledger.rank(kind("other"), {{1, 0.75}, {2, std::nullopt}});
  }
  Ledger again(folder / "sweep.sqlite");
  CHECK(again.ranking() == kind("other"));
  CHECK(again.runs().size() == 1);
  CHECK(again.all_runs()[0].value == 0.75);
  CHECK_FALSE(again.all_runs()[1].value);
}

TEST_CASE("Ledger: a run can end once, and only while it is running") {
  const TempFolder folder;
  Ledger ledger = with_runs(folder / "sweep.sqlite", 1);
  CHECK_THROWS_WITH(ledger.end(1, good(1), true), Contains("as ok: another sweep"));
  CHECK(ledger.runs()[0].rung_values.empty());
  ledger.set_target(kFirst, 0);
  ledger.claim(1, "me", "");
  ledger.end(1, good(0.25), true);
  const LedgerRun run = ledger.runs()[0];
  CHECK(run.status == SweepStatus::ok);
  CHECK(run.value == 0.25);
  CHECK(run.exit_code == 0);
  CHECK(run.metrics.front() == std::pair<std::string, double>("val/loss", 1.0));
  CHECK(run.holder.empty());
  CHECK_THROWS_WITH(ledger.end(1, good(1), true), Contains("as ok: another sweep"));
  CHECK_THROWS_WITH(ledger.put_back(1, Ledger::Reason::stopped),
                    Contains("as pending: another sweep"));
}

TEST_CASE("Ledger: a run that reached a rung is pending and its times add up") {
  const TempFolder folder;
  Ledger ledger = with_runs(folder / "sweep.sqlite", 1);
  for (const int rung : {0, 1}) {
    ledger.set_target(kFirst, rung);
    ledger.claim(1, "me", "");
    ledger.end(1, good(1.0 - rung), rung == 1);
  }
  const LedgerRun run = ledger.runs()[0];
  CHECK(run.rung == 1);
  CHECK(run.wall_s == 4);
  CHECK(run.rung_values == std::vector<std::optional<double>>{1.0, 0.0});
}

TEST_CASE("Ledger: values that are not finite are stored as absent") {
  const TempFolder folder;
  Ledger ledger = with_runs(folder / "sweep.sqlite", 1);
  ledger.set_target(kFirst, 0);
  ledger.claim(1, "me", "");
  ledger.end(1, good(std::numeric_limits<double>::infinity()), true);
  CHECK_FALSE(ledger.runs()[0].value);
}

TEST_CASE("Ledger: a new definition keeps all runs and lists only its own") {
  const TempFolder folder;
  Ledger ledger = with_runs(folder / "sweep.sqlite", 2);
  ledger.set_target(kFirst, 0);
  ledger.claim(1, "me", "");
  ledger.end(1, good(1), true);
  CHECK(ledger.define(kind("list"), planned(4)) == 2);
  CHECK(ledger.runs().size() == 4);
  CHECK(ledger.runs()[0].status == SweepStatus::ok);
  const std::vector<PlannedRun> all = planned(4);
  const std::vector<PlannedRun> last{all[3], all[0]};
  CHECK(ledger.define(kind("list"), last) == 0);
  REQUIRE(ledger.runs().size() == 2);
  CHECK(ledger.runs()[0].number == 4);
  CHECK(ledger.runs()[1].status == SweepStatus::ok);
}

TEST_CASE("Ledger: runs that differ only in the fold are separate runs") {
  const TempFolder folder;
  std::vector<PlannedRun> plan;
  for (const int fold : {0, 1, 2}) plan.push_back({"c0", 7, {}, fold});
  plan.push_back({"c0", 7, {}, {}});
  {
    Ledger ledger(folder / "sweep.sqlite");
    CHECK(ledger.define(kind("grid"), plan) == 4);
    CHECK(ledger.define(kind("grid"), plan) == 0);
  }
  std::vector<std::optional<int>> folds;
  for (const LedgerRun& run : Ledger(folder / "sweep.sqlite").runs())
    folds.push_back(run.plan.fold);
  CHECK(folds == std::vector<std::optional<int>>{0, 1, 2, std::nullopt});
}

TEST_CASE("Ledger: a process killed after any call leaves the state of that call") {
  for (std::size_t steps = 0; steps <= life().size(); ++steps) {
    CAPTURE(steps);
    const TempFolder folder;
    killed_after(folder / "sweep.sqlite", steps);
    Ledger expected(folder / "expected.sqlite");
    for (std::size_t i = 0; i < steps; ++i) life()[i](expected);
    const Ledger left(folder / "sweep.sqlite");
    CHECK(state_of(left) == state_of(expected));
  }
}

// SQLite's log grows with each transaction. Truncated at any byte it looks like one after a power
// failure, and the ledger must be in the state after one of the calls.
TEST_CASE("Ledger: a log truncated at any byte leaves the state of some call") {
  const TempFolder folder;
  std::vector<std::string> states;
  {
    Ledger expected(folder / "expected.sqlite");
    states.push_back(state_of(expected));
    for (const LedgerStep& step : life()) {
      step(expected);
      states.push_back(state_of(expected));
    }
  }
  killed_after(folder / "sweep.sqlite", life().size());
  const auto log_bytes = fs::file_size(folder / "sweep.sqlite-wal");
  for (std::uintmax_t left = 0; left <= log_bytes; left += 2039) {
    CAPTURE(left, log_bytes);
    const fs::path cut = folder / "cut";
    fs::remove_all(cut);
    fs::create_directory(cut);
    fs::copy_file(folder / "sweep.sqlite", cut / "sweep.sqlite");
    fs::copy_file(folder / "sweep.sqlite-wal", cut / "sweep.sqlite-wal");
    fs::resize_file(cut / "sweep.sqlite-wal", left);
    const Ledger ledger(cut / "sweep.sqlite");
    CHECK(std::ranges::find(states, state_of(ledger)) != states.end());
  }
}

TEST_CASE("Ledger: a file that is not a ledger is an error") {
  const TempFolder folder;
  put_text(folder / "sweep.sqlite", std::string(4096, 'x'));
  CHECK_THROWS_WITH(Ledger(folder / "sweep.sqlite"), Contains("is not the database of a sweep"));
  CHECK_THROWS_WITH(Ledger(folder / "none" / "sweep.sqlite"), Contains("check the disk"));
}
