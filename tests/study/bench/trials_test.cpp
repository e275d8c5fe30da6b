#include "study/bench/trials.hpp"

#include "support/catch.hpp"
#include "support/manual_clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace trainctl;
using namespace trainctl::study;

namespace {

using Strings = std::vector<std::string>;

Strings techniques(const std::vector<Axis>& axes) {
  Strings names;
  for (const Setting& setting : product(axes)) names.push_back(setting.technique);
  return names;
}

}  // namespace

TEST_CASE("parse_axis: splits values at commas outside brackets and quotes") {
  CHECK(parse_axis("k", "0,4,8").values == Strings{"0", "4", "8"});
  CHECK(parse_axis("k", " auto , 2").values == Strings{"auto", "2"});
  CHECK(parse_axis("model.hidden", "[128,64],[256]").values == Strings{"[128,64]", "[256]"});
  CHECK(parse_axis("k", "'a,b',\"c,d\"").values == Strings{"'a,b'", "\"c,d\""});
  CHECK(parse_axis("optimizer", "{type: sgd, lr: 1},{type: adam}").values.size() == 2);
  CHECK(parse_axis("k", "choice(a,b)").values == Strings{"a", "b"});
}

TEST_CASE("range(): excludes its stop and has a default step of 1") {
  CHECK(parse_axis("k", "range(1,10,3)").values == Strings{"1", "4", "7"});
  CHECK(parse_axis("k", "range(0,3)").values == Strings{"0", "1", "2"});
  CHECK(parse_axis("k", "range(0.5,2,0.5)").values == Strings{"0.5", "1", "1.5"});
  CHECK_THROWS_WITH(parse_axis("k", "range(3,1)"), Contains("range(3,1) is empty"));
  CHECK_THROWS_WITH(parse_axis("k", "range(1,9,0)"), Contains("is empty"));
  CHECK_THROWS_WITH(parse_axis("k", "range(1,1e9)"), Contains("more than 1000 values"));
  CHECK_THROWS_WITH(parse_axis("k", "range(1,two)"), Contains("'two' in range() is not a number"));
  CHECK_THROWS_WITH(parse_axis("k", "range(1)"), Contains("range() takes start, stop"));
}

TEST_CASE("parse_axis: empty and repeated values are errors") {
  CHECK_THROWS_WITH(parse_axis("loader.num_workers", "0,,4"),
                    Contains("loader.num_workers: '0,,4' has an empty value"));
  CHECK_THROWS_WITH(parse_axis("k", ""), Contains("has an empty value"));
  CHECK_THROWS_WITH(parse_axis("k", "4,4"), Contains("the value 4 is given twice"));
}

TEST_CASE("parse_grid: splits at the first =") {
  CHECK(parse_grid("a.b=x=1,y").values == Strings{"x=1", "y"});
  CHECK(parse_grid("a.b=x=1,y").key == "a.b");
  CHECK_THROWS_WITH(parse_grid("lr"), Contains("'lr' must have the form key=a,b"));
  CHECK_THROWS_WITH(parse_grid("=1,2"), Contains("must have the form key=a,b"));
}

TEST_CASE("product: returns all combinations, named by the last parts of their keys") {
  CHECK(techniques({{"loader.num_workers", {"0", "4"}}, {"trainer.devices", {"1", "2"}}}) ==
        Strings{"num_workers=0, devices=1", "num_workers=0, devices=2", "num_workers=4, devices=1",
                "num_workers=4, devices=2"});
  CHECK(techniques({}) == Strings{"as configured"});
  CHECK(techniques({{"optimizer.lr", {"1"}}, {"scheduler.lr", {"2"}}}) ==
        Strings{"optimizer.lr=1, scheduler.lr=2"});
  CHECK(product(std::vector<Axis>{{"a.b", {"1"}}}).front().overrides() == Strings{"a.b=1"});
}

TEST_CASE("product: strategies are named as such, and data_parallel is marked as slow") {
  CHECK(techniques({{"trainer.devices", {"2"}}, {"distributed.type", {"ddp", "data_parallel"}}}) ==
        Strings{"devices=2, strategy=ddp", "devices=2, strategy=data_parallel (slower by design)"});
}

TEST_CASE("product: a repeated key and too many combinations are errors") {
  CHECK_THROWS_WITH(techniques({{"a", {"1"}}, {"a", {"2"}}}), Contains("a is given twice"));
  const Axis wide = parse_axis("k", "range(0,100)");
  CHECK_THROWS_WITH(techniques({wide, {"l", wide.values}}),
                    Contains("more than 1000 combinations"));
}

TEST_CASE("run_rounds: each round runs every setting once, in alternating order") {
  std::string order;
  const auto settings = product(std::vector<Axis>{{"k", {"a", "b", "c"}}});
  const auto rows =
      run_rounds(settings, {.repeats = 2}, [&](std::size_t setting, int repeat) -> TrialResult {
        order += fmt::format("{}{} ", setting, repeat);
        return report::Trial{.total_s = static_cast<double>(setting + 1)};
      });
  CHECK(order == "00 10 20 21 11 01 ");
  REQUIRE(rows.size() == 3);
  CHECK(rows[2].technique == "k=c");
  CHECK(rows[2].trials.size() == 2);
  CHECK(rows[2].trials[1].total_s == 3);
}

TEST_CASE("run_rounds: a failed row is not run again and the others continue") {
  const auto settings = product(std::vector<Axis>{{"k", {"a", "b"}}});
  int runs = 0;
  const auto rows =
      run_rounds(settings, {.repeats = 5}, [&](std::size_t setting, int repeat) -> TrialResult {
        ++runs;
        if (setting == 1 && repeat == 1) return report::TrialFailure{6, "loss is nan"};
        return report::Trial{};
      });
  CHECK(runs == 7);
  CHECK(rows[0].trials.size() == 5);
  CHECK_FALSE(rows[0].failure);
  CHECK(rows[1].trials.size() == 1);
  REQUIRE(rows[1].failure);
  CHECK(rows[1].failure->message == "k=b (run 2 of 5): loss is nan");
  CHECK(exit_code_of(rows) == 6);
}

TEST_CASE(
    "run_rounds: a run stopped by a signal ends the bench with its exit code after other "
    "failures") {
  const auto settings = product(std::vector<Axis>{{"k", {"a", "b", "c"}}});
  int runs = 0;
  const auto rows =
      run_rounds(settings, {.repeats = 5}, [&](std::size_t setting, int /*repeat*/) -> TrialResult {
        ++runs;
        return report::TrialFailure{setting == 0 ? 9 : 130, "over"};
      });
  CHECK(runs == 2);
  CHECK(exit_code_of(rows) == 130);
}

namespace {

// Makes runs that take the given seconds of a manual clock.
std::vector<report::BenchRow> within(double budget_s, std::vector<double> seconds, int repeats) {
  const auto settings = product(std::vector<Axis>{{"k", {"a", "b"}}});
  ManualClock clock;
  std::size_t run = 0;
  return run_rounds(settings, {.repeats = repeats, .ends_at = budget_s, .clock = &clock},
                    [&](std::size_t, int) -> TrialResult {
                      clock.advance(seconds[run++ % seconds.size()]);
                      return report::Trial{.total_s = 1};
                    });
}

}  // namespace

TEST_CASE("run_rounds: no round starts that would exceed the budget") {
  CHECK(within(100, {5}, 5)[1].trials.size() == 5);
  CHECK(within(35, {5}, 5)[1].trials.size() == 3);
  CHECK(within(30, {5}, 5)[1].trials.size() == 3);
  CHECK(within(29.9, {5}, 5)[1].trials.size() == 2);
  // The rounds take 2, 12, 2, 2 and 2 seconds: another one of 12 s would exceed the budget.
  CHECK(within(30, {1, 1, 6, 6, 1, 1, 1, 1, 1, 1}, 9)[1].trials.size() == 5);
}

TEST_CASE("run_rounds: the first round is completed if its last run starts within the budget") {
  const auto rows = within(6, {5}, 5);
  CHECK(rows[0].trials.size() == 1);
  CHECK(rows[1].trials.size() == 1);
  CHECK(is_whole_round(rows));
}

TEST_CASE("run_rounds: a run that the budget killed ends the bench without failing its row") {
  const auto settings = product(std::vector<Axis>{{"k", {"a", "b"}}});
  const auto ended_in = [&](int last) {
    int runs = 0;
    return run_rounds(settings, {.repeats = 5}, [&](std::size_t, int) -> TrialResult {
      if (++runs < last) return report::Trial{.total_s = 1};
      return report::TrialFailure{.exit_code = 8, .message = "late", .overdue = true};
    });
  };
  const auto first = ended_in(2);
  CHECK(first[0].trials.size() == 1);
  CHECK_FALSE(is_whole_round(first));
  CHECK(exit_code_of(first) == 0);
  const auto third = ended_in(5);
  CHECK(third[0].trials.size() == 2);
  CHECK(third[1].trials.size() == 2);
  CHECK_FALSE(third[0].failure);
}

namespace {

/// A bench of the settings 0, 4 and 8 with the 150 s budget of a built-in experiment. Each run
/// takes `run_s` seconds of a manual clock and is killed at the end of the budget.
struct BuiltinBench {
  static constexpr double kBudgetS = 150;
  static constexpr int kRepeats = 5;

  explicit BuiltinBench(double run_s) {
    rows = run_rounds(product(std::vector<Axis>{{"loader.num_workers", {"0", "4", "8"}}}),
                      {.repeats = kRepeats, .ends_at = kBudgetS, .clock = &clock},
                      [&](std::size_t, int) -> TrialResult {
                        const double left_s = kBudgetS - clock.now();
                        clock.advance(std::min(run_s, left_s));
                        if (run_s > left_s)
                          return report::TrialFailure{
                              .exit_code = 8, .message = "late", .overdue = true};
                        return report::Trial{.total_s = run_s, .epoch_s = {run_s}};
                      });
    table = report::to_text(report::bench_table(rows), {});
    note = budget_note(rows, kRepeats, "150s");
  }

  ManualClock clock;
  std::vector<report::BenchRow> rows;
  std::string table;
  std::string note;
};

}  // namespace

TEST_CASE("bench: rounds end before the budget for any duration of a run") {
  for (const double run_s : {1.0, 10.0, 12.0, 20.0, 40.0, 49.0, 60.0, 149.0, 1000.0}) {
    CAPTURE(run_s);
    const BuiltinBench bench(run_s);
    CHECK(bench.clock.now() <= BuiltinBench::kBudgetS);
    const auto most = static_cast<std::size_t>(BuiltinBench::kBudgetS / (3 * run_s));
    const std::size_t whole = std::min<std::size_t>(most, BuiltinBench::kRepeats);
    for (const report::BenchRow& row : bench.rows) {
      CHECK_FALSE(row.failure);
      CHECK(row.trials.size() >= whole);
      CHECK(row.trials.size() <= std::max<std::size_t>(whole, 1));
    }
    CHECK(bench.note ==
          (whole == 5 ? std::string()
                      : fmt::format("The budget of 150s left time for {} of 5 repeats.\n", whole)));
  }
}

TEST_CASE("bench: a first round that exceeds the budget gives a table with a note") {
  const BuiltinBench bench(60);
  CHECK(bench.rows[1].trials.size() == 1);
  CHECK(bench.rows[2].trials.empty());
  CHECK_FALSE(is_whole_round(bench.rows));
  for (const char* technique : {"num_workers=0", "num_workers=4", "num_workers=8"})
    CHECK_THAT(bench.table, Contains(technique));
  CHECK_THAT(bench.table, Contains("60"));
  CHECK_THAT(bench.note, Contains("The budget of 150s left time for 0 of 5 repeats"));
}

TEST_CASE("run_rounds: a budget used up in the first round leaves settings without a run") {
  const auto rows = within(4, {5}, 5);
  CHECK(rows[0].trials.size() == 1);
  CHECK(rows[1].trials.empty());
  CHECK_FALSE(is_whole_round(rows));
}

TEST_CASE("run_rounds: no run starts if the budget is used up before the first one") {
  const auto settings = product(std::vector<Axis>{{"k", {"a", "b"}}});
  ManualClock clock;
  clock.advance(5);
  int runs = 0;
  const auto rows = run_rounds(settings, {.repeats = 5, .ends_at = 4, .clock = &clock},
                               [&](std::size_t, int) -> TrialResult {
                                 ++runs;
                                 return report::Trial{};
                               });
  CHECK(runs == 0);
  CHECK(rows.size() == 2);
  CHECK_FALSE(is_whole_round(rows));
}
