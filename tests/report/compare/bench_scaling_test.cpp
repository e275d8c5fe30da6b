#include "report/compare/bench_scaling.hpp"

#include "report/invented.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <limits>

using namespace trainctl;
using namespace trainctl::report;

namespace {

Trial trial_at(double samples_per_s, std::vector<double> losses = {0.5, 0.25}) {
  return {.total_s = 10,
          .epoch_s = {5, 5},
          .samples_per_s = samples_per_s,
          .losses = std::move(losses),
          .data_digest = "d1",
          .global_batch = 64,
          .num_threads = 1};
}

Trial two_rank_trial(double samples_per_s, std::vector<double> losses) {
  Trial found = trial_at(samples_per_s, std::move(losses));
  found.exposed_s = 0.002;
  found.exposed_share = 0.2;
  found.slowest = SlowRank{1, 0.04};
  return found;
}

BenchRow row_of(int devices, int batch, std::vector<Trial> trials) {
  return {
      "devices=" + std::to_string(devices),
      {{"trainer.devices", std::to_string(devices)}, {"loader.batch_size", std::to_string(batch)}},
      std::move(trials),
      {}};
}

std::vector<BenchRow> one_and_two() {
  const std::vector<double> near{0.5 + 1e-7, 0.25};
  return {
      row_of(1, 64, {trial_at(100), trial_at(110), trial_at(90)}),
      row_of(2, 32,
             {two_rank_trial(180, near), two_rank_trial(165, near), two_rank_trial(162, near)})};
}

}  // namespace

TEST_CASE("bench scaling: efficiency is the paired speedup divided by the number of devices") {
  const auto rows = one_and_two();
  const auto scaling = scaling_rows(rows, Scaling::strong);
  REQUIRE(scaling.size() == 2);
  CHECK(scaling[0].base == 0);
  CHECK(*scaling[0].efficiency.value == Approx(1));
  const ScalingRow& two = scaling[1];
  CHECK(two.base == 0);
  CHECK(two.devices == 2);
  CHECK(two.global_batch == 64);
  CHECK(*two.speedup.value == Approx(std::cbrt(1.8 * 1.5 * 1.8)));
  CHECK(*two.efficiency.value == Approx(std::cbrt(1.8 * 1.5 * 1.8) / 2));
  REQUIRE(two.efficiency.ci95);
  CHECK(two.efficiency.ci95->low == Approx(1.304114 / 2).epsilon(1e-5));
  CHECK(two.efficiency.ci95->high == Approx(2.200097 / 2).epsilon(1e-5));
  CHECK(*two.exposed_s == Approx(0.002));
  CHECK(two.slowest->rank == 1);
  CHECK(*two.loss_gap == Approx(1e-7 / (0.5 + 1e-7)));
}

TEST_CASE("bench scaling: text shows the kind of scaling and losses that agree within rounding") {
  const auto rows = one_and_two();
  const auto scaling = scaling_rows(rows, Scaling::strong);
  const std::string text = to_text(scaling_table(rows, scaling), {});
  CHECK_THAT(text, Contains("baseline") && Contains("1.69 [1.30, 2.20]") &&
                       Contains("85 [65, 110]") && Contains("2.0 ms (20 %)") &&
                       Contains("rank 1 (+4 %)") && Contains("same     within 1e-06"));
  const std::string notes = scaling_notes(scaling, Scaling::strong);
  CHECK_THAT(notes, Contains("Strong scaling") && Contains("relative to 1 device.") &&
                        Contains("not bit for bit"));
  CHECK_THAT(scaling_notes(scaling, Scaling::weak),
             Contains("Weak scaling") && !Contains("not bit for bit"));
  CHECK_THAT(to_text(bench_table(rows), {}), Contains("within 1e-06"));
}

TEST_CASE("bench scaling: the base is the first row with equal other settings") {
  std::vector<BenchRow> rows;
  for (const int workers : {0, 4}) {
    for (const int devices : {2, 4}) {
      BenchRow row = row_of(devices, 32, {trial_at(100 * devices + workers)});
      row.settings.emplace_back("loader.num_workers", std::to_string(workers));
      rows.push_back(row);
    }
  }
  const auto scaling = scaling_rows(rows, Scaling::weak);
  REQUIRE(scaling.size() == 4);
  CHECK(scaling[1].base == 0);
  CHECK(scaling[2].base == 2);
  CHECK(scaling[3].base == 2);
  CHECK(*scaling[1].efficiency.value == Approx(1));  // it has twice the devices of its base
}

TEST_CASE("bench scaling: strong scaling distinguishes rows by the global batch size") {
  const std::vector<BenchRow> rows{row_of(1, 64, {trial_at(1)}), row_of(2, 32, {trial_at(2)}),
                                   row_of(1, 128, {trial_at(3)}), row_of(2, 64, {trial_at(6)})};
  const auto scaling = scaling_rows(rows, Scaling::strong);
  REQUIRE(scaling.size() == 4);
  CHECK(scaling[1].base == 0);
  CHECK(scaling[3].base == 2);
}

TEST_CASE("bench scaling: absent unless rows have different numbers of devices") {
  std::vector<BenchRow> rows = one_and_two();
  CHECK(scaling_rows(std::vector{rows[0]}, Scaling::weak).empty());
  rows[1].settings[0].second = "auto";
  CHECK(scaling_rows(rows, Scaling::weak).empty());
  CHECK(scaling_json(rows, {}, Scaling::weak).is_null());
  CHECK(scaling_notes({}, Scaling::weak).empty());
}

TEST_CASE("bench scaling: a failed base leaves the other rows without an efficiency") {
  std::vector<BenchRow> rows = one_and_two();
  rows[0].trials.clear();
  rows[0].failure = TrialFailure{7, "rank 0 was ended"};
  const auto scaling = scaling_rows(rows, Scaling::strong);
  CHECK_FALSE(scaling[1].efficiency.value.has_value());
  CHECK_FALSE(scaling[1].loss_gap.has_value());
  const Json document = scaling_json(rows, scaling, Scaling::strong);
  CHECK(document["mode"] == "strong");
  CHECK(document["rows"][1]["efficiency"]["value"].is_null());
  CHECK(document["rows"][0]["global_batch"].is_null());
  CHECK_THAT(to_text(scaling_table(rows, scaling), {}), Contains("-") && !Contains("nan"));
}

TEST_CASE("loss_gap: the gap is relative, and absent if a loss is missing or not finite") {
  const auto gap = [](std::vector<double> base, std::vector<double> other) {
    const BenchRow a{"a", {}, {trial_at(1, std::move(base))}, {}};
    const BenchRow b{"b", {}, {trial_at(1, std::move(other))}, {}};
    return loss_gap(a, b);
  };
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  CHECK(*gap({1, 2}, {1, 2}) == 0);
  CHECK(*gap({1, 2}, {1, 4}) == Approx(0.5));
  CHECK(*gap({1, kNaN}, {1, kNaN}) == 0);
  CHECK_FALSE(gap({1, 2}, {1, kNaN}).has_value());
  CHECK_FALSE(gap({1, 2}, {1}).has_value());
  CHECK_FALSE(gap({}, {}).has_value());
  CHECK(loss_text(0.0) == "same");
  CHECK(loss_text(3e-7) == "within 1e-06");
  CHECK(loss_text(2e-4) == "differ");
  CHECK(loss_text({}) == "?");
}

TEST_CASE("trial_of: several ranks have their mean wait and the slowest rank") {
  RunRecord record = invented::run();
  for (const int rank : {0, 1}) {
    events::RankEpoch epoch{.rank = rank, .steps = 10, .wall_s = 10};
    epoch.step_s = rank == 0 ? 6 : 9;
    epoch.allreduce_exposed_s = 10 - epoch.step_s;
    record.add(rank, epoch);
  }
  const Trial found = trial_of(record, 9.75);
  CHECK(found.global_batch == 64);
  REQUIRE(found.slowest);
  CHECK(found.slowest->rank == 1);
  CHECK(found.slowest->slowdown == Approx(0.2));
  CHECK(*found.exposed_s == Approx(0.25));
  CHECK(*found.exposed_share == Approx(0.25));
  CHECK_FALSE(trial_of(invented::run(), 9.75).exposed_s.has_value());
}
