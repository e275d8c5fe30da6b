#include "report/plan/communication_cost.hpp"

#include "report/plan/multi_rank_plan.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::report;

namespace {

/// The latency is 1 ms per message, the bandwidth 1 MB/s.
constexpr Link kSlow{.latency_s = 0.001, .bytes_per_s = 1e6};

}  // namespace

TEST_CASE("ring_seconds: a ring sends 2 (N-1) messages of 1/N of the bytes") {
  CHECK(ring_seconds(2, 1e6, kSlow) == Approx(1.0 + 0.002));
  CHECK(ring_seconds(4, 1e6, kSlow) == Approx(1.5 + 0.006));
  CHECK(ring_seconds(1024, 1e6, kSlow) == Approx(2 * 1023.0 / 1024 + 2.046));
  CHECK(ring_seconds(1, 1e6, kSlow) == 0);
  CHECK(ring_seconds(8, 0, kSlow) == Approx(0.014));
}

TEST_CASE("estimate_step: communication during the backward pass is not exposed") {
  // With two ranks a bucket of 100 kB takes 0.102 s. Gradients are ready after 0.5 s and 1 s.
  const SyncedStep step{.step_s = 2, .backward_s = 1, .samples = 10, .buckets = {100'000, 100'000}};
  const EstimatedStep two = estimate_step(step, kSlow, 2);
  CHECK(two.exchange_s == Approx(0.204));
  CHECK(two.exposed_s == Approx(0.102));
  CHECK(two.step_s == Approx(2.102));
  CHECK(two.efficiency == Approx(2 / 2.102));
  CHECK(two.samples_per_s == Approx(20 / 2.102));
}

TEST_CASE("estimate_step: a bucket starts after the previous one") {
  // Each bucket takes 1.002 s: the first starts at 0.5 s, the second after it at 1.502 s.
  const SyncedStep step{
      .step_s = 2, .backward_s = 1, .samples = 10, .buckets = {1'000'000, 1'000'000}};
  CHECK(estimate_step(step, kSlow, 2).exposed_s == Approx(2.504 - 1));
}

TEST_CASE("estimate_step: one rank or a model without gradients communicates nothing") {
  const SyncedStep step{.step_s = 2, .backward_s = 1, .samples = 10, .buckets = {1'000'000}};
  const EstimatedStep one = estimate_step(step, kSlow, 1);
  CHECK(one.exchange_s == 0);
  CHECK(one.exposed_s == 0);
  CHECK(one.efficiency == 1);
  CHECK(one.samples_per_s == Approx(5));
  const EstimatedStep none =
      estimate_step({.step_s = 2, .backward_s = 1, .samples = 10, .buckets = {}}, kSlow, 8);
  CHECK(none.efficiency == 1);
  CHECK(estimate_step({}, kSlow, 8).samples_per_s == 0);
}

TEST_CASE("estimate_step: averaging of weights is exposed and divided by its steps") {
  const SyncedStep step{.step_s = 2,
                        .backward_s = 1,
                        .samples = 10,
                        .buckets = {1'000'000},
                        .exchange = SyncKind::weights,
                        .every = 4};
  const EstimatedStep two = estimate_step(step, kSlow, 2);
  CHECK(two.exchange_s == Approx(1.002 / 4));
  CHECK(two.exposed_s == Approx(1.002 / 4));
  CHECK(two.step_s == Approx(2 + 1.002 / 4));
}

TEST_CASE("estimate_step: weights sent after the gradients are fully exposed") {
  const SyncedStep step{.step_s = 2,
                        .backward_s = 1,
                        .samples = 10,
                        .buckets = {100'000},
                        .exchange = SyncKind::gradients_and_weights,
                        .weight_bytes = 200'000};
  const EstimatedStep two = estimate_step(step, kSlow, 2);
  CHECK(two.exchange_s == Approx(0.102 + 0.101));
  CHECK(two.exposed_s == Approx(0.102 + 0.101));
  CHECK(estimate_step(step, kSlow, 1).exposed_s == 0);
}

TEST_CASE("scaling plan: assumptions depend on the strategy and on accumulated batches") {
  const auto assumptions = [](const SyncedStep& step) {
    PlannedScaling scaling;
    scaling.step = step;
    std::string all;
    for (const std::string& one : scaling_assumptions(scaling)) all += one + "\n";
    return all;
  };
  CHECK_THAT(assumptions({}), Contains("gradients become ready") && !Contains("local_sgd") &&
                                  !Contains("zero1") && !Contains("accumulated batches"));
  CHECK_THAT(assumptions({.batches = 2}), Contains("accumulated batches"));
  CHECK_THAT(assumptions({.exchange = SyncKind::gradients_and_weights}),
             Contains("zero1") && Contains("updates all weights, but each of N ranks updates 1/N"));
  CHECK_THAT(assumptions({.exchange = SyncKind::weights, .every = 8}),
             Contains("after every 8 steps") && !Contains("gradients become ready"));
}

TEST_CASE("scaling plan: has rows for 1, the requested number, 64 and 1,024 ranks, each once") {
  const SyncedStep step{.step_s = 2, .backward_s = 1, .samples = 10, .buckets = {1'000'000}};
  const auto ranks = [&](int requested) {
    std::vector<int> found;
    for (const EstimatedStep& row : estimate_scaling(step, kSlow, requested))
      found.push_back(row.ranks);
    return found;
  };
  CHECK(ranks(8) == std::vector<int>{1, 8, 64, 1024});
  CHECK(ranks(64) == std::vector<int>{1, 64, 1024});
  CHECK(ranks(4096) == std::vector<int>{1, 64, 1024, 4096});
}

TEST_CASE("link units: bandwidths and latencies are numbers with a unit") {
  CHECK(*parse_bandwidth("25GB/s") == Approx(25e9));
  CHECK(*parse_bandwidth("1.5 GiB") == Approx(1.5 * 1024 * 1024 * 1024));
  CHECK(*parse_bandwidth("100Gbit/s") == Approx(12.5e9));
  CHECK(*parse_bandwidth("800 KB/s") == Approx(8e5));
  CHECK(*parse_bandwidth("800 Kbit/s") == Approx(1e5));
  for (const double rate : {12.0, 1e3, 2e6, 3e9, 4e12})
    CHECK(*parse_bandwidth(bandwidth_text(rate)) == Approx(rate));
  CHECK(*parse_latency("20us") == Approx(20e-6));
  CHECK(*parse_latency("1.5 ms") == Approx(0.0015));
  CHECK(*parse_latency("0s") == 0);
  for (const char* text : {"", "GB/s", "0GB/s", "-1GB/s", "25", "25 G", "25gb/s", "infGB/s"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_bandwidth(text).has_value());
  }
  for (const char* text : {"", "20", "us", "-1us", "20 min", "nans"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_latency(text).has_value());
  }
}

TEST_CASE("bandwidth_text: uses powers of ten like data sheets") {
  CHECK(bandwidth_text(3.104e9) == "3.1 GB/s");
  CHECK(bandwidth_text(999.6) == "1 kB/s");
  CHECK(bandwidth_text(12) == "12 B/s");
  CHECK(latency_text(23.46e-6) == "23.5 us");
  CHECK(latency_text(0.002) == "2 ms");
}

TEST_CASE("scaling plan: text and JSON have formula, link, overlap and assumptions") {
  PlannedScaling scaling{
      .step = {.step_s = 2, .backward_s = 1, .samples = 10, .buckets = {100'000, 100'000}},
      .link = kSlow,
      .link_from = "link\x1b.json",
      .device = "cpu with 2 threads",
      .backward_from = "timed",
      .rows = {}};
  scaling.rows = estimate_scaling(scaling.step, scaling.link, 2);
  const std::string text = scaling_text(scaling, {});
  CHECK_THAT(text, Contains("2 (N-1)/N x bytes / bandwidth + 2 (N-1) x latency") &&
                       Contains("195.3 KiB in 2 buckets: 97.7 KiB, 97.7 KiB") &&
                       Contains("1 ms per message, 1 MB/s (link\\x1b.json)") &&
                       Contains("2.00 s for one rank on cpu with 2 threads, of which the backward "
                                "pass takes 1.00 s (timed)") &&
                       Contains("weak scaling: the batch size per rank is constant"));
  CHECK_THAT(text, Contains("\n     2            20    0.20 s   0.10 s  2.10 s"));
  const Json document = scaling_json(scaling);
  CHECK(document["schema"] == "trainctl.scaling/2");
  CHECK(document["gradient_bytes"] == 200'000);
  REQUIRE(document["rows"].size() == 4);
  CHECK(document["rows"][1]["ranks"] == 2);
  CHECK(document["rows"][1]["global_batch"] == 20);
  CHECK(document["rows"][1]["samples_per_step"] == 20);
  CHECK(document["exchange"] == "gradients");
  CHECK(document["rows"][1]["exposed_s"].get<double>() == Approx(0.102));
  CHECK(document["rows"][3]["ranks"] == 1024);
}

TEST_CASE("scaling plan: a measured step replaces the estimate for the same number of ranks") {
  PlannedScaling scaling{
      .step = {.step_s = 2, .backward_s = 1, .samples = 10, .buckets = {100'000, 100'000}},
      .link = kSlow,
      .link_from = "measured now",
      .device = "cpu with 2 threads",
      .backward_from = "timed",
      .rows = {}};
  scaling.rows = estimate_scaling(scaling.step, scaling.link, 2);
  scaling.shared = SharedStep{.ranks = 2,
                              .step_s = 4,
                              .exposed_s = 0.5,
                              .range = {.low_s = 3.8, .high_s = 4.4},
                              .num_threads = 1};
  use_measured(*scaling.shared, scaling.step, scaling.rows);
  const EstimatedStep& two = scaling.rows[1];
  CHECK(two.step_s == 4);
  CHECK(two.exposed_s == 0.5);
  CHECK(two.efficiency == 0.5);
  CHECK(two.samples_per_s == 5);
  CHECK_FALSE(scaling.rows[0].measured.has_value());
  CHECK_THAT(scaling_text(scaling, {}),
             Contains("4.00 s (3.80 s to 4.40 s)") &&
                 Contains("the step of 2 ranks was timed with 2 parallel processes") &&
                 Contains("with 1 thread each"));
  const Json document = scaling_json(scaling);
  CHECK(document["rows"][1]["measured"] == true);
  CHECK(document["rows"][1]["step_low_s"] == 3.8);
  CHECK(document["rows"][1]["step_high_s"] == 4.4);
  CHECK(document["rows"][2]["measured"] == false);
  CHECK(document["rows"][2]["step_low_s"].is_null());
}
