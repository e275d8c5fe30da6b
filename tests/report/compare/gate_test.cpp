#include "report/compare/gate.hpp"

#include "report/noisy_bench.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace trainctl;
using namespace trainctl::report;

namespace {

using Values = std::vector<double>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<Condition> conditions(const std::string& text) {
  const std::vector<std::string> metrics{"train/loss", "val/accuracy"};
  return parse_conditions(text, metrics);
}

GateComparison compare(Samples base, Samples now, Pairing pairing = Pairing::interleaved) {
  return {"new", "'old'", std::move(base), std::move(now), pairing};
}

std::vector<Finding> findings_of(const std::string& text, const GateComparison& comparison) {
  return evaluate_conditions(conditions(text), std::vector{comparison});
}

Finding single_finding(const std::string& text, const Values& base, const Values& now,
                       Pairing pairing = Pairing::interleaved) {
  const std::string metric = text.substr(0, text.find_first_of("<>"));
  return findings_of(text, compare({{metric, base}}, {{metric, now}}, pairing)).front();
}

Finding finding_of_times(const std::string& text, const noisy::Times& times) {
  return single_finding(text, times.base, times.other);
}

const Values kBase{10.0, 10.1, 9.9, 10.05, 9.95};

Values scaled(const Values& values, double by) {
  Values other;
  for (std::size_t i = 0; i < values.size(); ++i)
    other.push_back(values[i] * by * (i % 2 == 0 ? 1.001 : 0.999));
  return other;
}

}  // namespace

TEST_CASE("gate: the interval and the bound decide between pass, fail and inconclusive") {
  const Finding fails = single_finding("total_s>+5%", kBase, scaled(kBase, 1.1));
  CHECK(fails.verdict == Verdict::fail);
  CHECK(*fails.change == Approx(10).margin(0.2));
  CHECK_THAT(fails.why, Contains("is beyond the bound"));
  CHECK(single_finding("total_s>+5%", kBase, scaled(kBase, 1)).verdict == Verdict::pass);
  CHECK(single_finding("samples_per_s<-5%", kBase, scaled(kBase, 0.9)).verdict == Verdict::fail);
  CHECK(single_finding("samples_per_s<-5%", kBase, scaled(kBase, 1.3)).verdict == Verdict::pass);
  const Finding open = single_finding("total_s>+5%", kBase, scaled(kBase, 1.05));
  CHECK(open.verdict == Verdict::inconclusive);
  CHECK_THAT(open.why, Contains("includes the bound; ") && Contains("repeats"));
}

TEST_CASE("gate: an inconclusive result says how many repeats would probably decide") {
  const Values base{10, 12, 9, 11, 10};
  const Values now{11, 9, 12, 10, 11};
  const Finding open = single_finding("total_s>+5%", base, now);
  CHECK(open.verdict == Verdict::inconclusive);
  REQUIRE(open.repeats.has_value());
  CHECK(*open.repeats > 5);
  CHECK_THAT(open.why, Contains(std::to_string(*open.repeats) + " repeats are probably enough"));
  const Finding few = single_finding("total_s>+5%", {10, 10}, {11, 11});
  CHECK(few.verdict == Verdict::inconclusive);
  CHECK(few.repeats == 3);
  CHECK_THAT(few.why, Contains("needs at least 3 runs of each side, got 2"));
}

TEST_CASE("gate: deterministic metrics are compared without an interval") {
  CHECK(single_finding("val/accuracy<-0.5pt", {0.9, 0.9}, {0.895, 0.895}).verdict == Verdict::pass);
  const Finding fails = single_finding("val/accuracy<-0.5pt", {0.9, 0.9}, {0.894, 0.894});
  CHECK(fails.verdict == Verdict::fail);
  CHECK(*fails.change == Approx(-0.6));
  CHECK_FALSE(fails.interval.has_value());
  CHECK(single_finding("train/loss>+1%", {0.5, 0.5}, {0.5, 0.5}).verdict == Verdict::pass);
  CHECK(single_finding("val/accuracy<0%", {0, 0}, {0, 0}).verdict == Verdict::pass);
  // With a single run per side it is unknown whether the metrics are deterministic.
  CHECK(single_finding("train/loss>+1%", {0.5}, {0.6}).verdict == Verdict::inconclusive);
  CHECK(single_finding("train/loss>+1%", {0.5}, {0.5}).verdict == Verdict::pass);
  // On a machine with nondeterministic kernels the metrics get an interval.
  CHECK(
      single_finding("val/accuracy<-5pt", {0.9, 0.91, 0.9}, {0.9, 0.9, 0.91}).interval.has_value());
}

TEST_CASE("gate: a missing or non-finite value never passes") {
  const auto missing = findings_of("gpu_mem_mb>+5%", compare({}, {{"gpu_mem_mb", {1}}}));
  CHECK(missing.front().verdict == Verdict::inconclusive);
  CHECK_THAT(missing.front().why, Contains("gpu_mem_mb of 'old' is not reported"));
  CHECK(single_finding("train/loss>+1%", {0.5, 0.5}, {kNaN, kNaN}).verdict == Verdict::fail);
  CHECK(single_finding("train/loss>+1%", {kNaN, kNaN}, {kNaN, kNaN}).verdict ==
        Verdict::inconclusive);
  CHECK_THAT(single_finding("train/loss>+1%", {0, 0}, {0.5, 0.5}).why,
             Contains("use a bound in pt"));
}

TEST_CASE("gate: a failure outweighs inconclusive results, and these outweigh passes") {
  const auto verdicts = [](std::vector<Verdict> all) {
    std::vector<Finding> findings;
    for (const Verdict verdict : all) {
      Finding finding;
      finding.verdict = verdict;
      findings.push_back(finding);
    }
    return gate_code(findings);
  };
  CHECK(verdicts({}) == 0);
  CHECK(verdicts({Verdict::pass, Verdict::pass}) == 0);
  CHECK(verdicts({Verdict::pass, Verdict::inconclusive}) == 4);
  CHECK(verdicts({Verdict::inconclusive, Verdict::fail, Verdict::pass}) == 3);
}

TEST_CASE("gate: more than two conditions widen the intervals to keep 5 % in total") {
  CHECK(level_for(0) == Approx(0.95));
  CHECK(level_for(1) == Approx(0.95));
  CHECK(level_for(2) == Approx(0.95));
  CHECK(level_for(4) == Approx(0.975));
  const Finding alone = single_finding("total_s>1%", kBase, scaled(kBase, 1.02));
  const Samples now{{"total_s", scaled(kBase, 1.02)}, {"rss_mb", kBase}, {"epoch_s", kBase}};
  const Samples base{{"total_s", kBase}, {"rss_mb", kBase}, {"epoch_s", kBase}};
  const auto low = [&](const std::string& text) {
    return findings_of(text, compare(base, now)).front().interval->low;
  };
  CHECK(low("total_s>1%,rss_mb>1%") == Approx(alone.interval->low));
  CHECK(low("total_s>1%,rss_mb>1%,epoch_s>1%") < alone.interval->low);
}

TEST_CASE("gate: an unchanged bench fails a zero bound in at most 5 % of 2,000 benches") {
  constexpr int kBenches = 2000;
  for (const auto noise :
       {noisy::Noise::normal, noisy::Noise::slow_minutes, noisy::Noise::spikes}) {
    int failed = 0;
    for (int i = 0; i < kBenches; ++i) {
      const auto times =
          noisy::bench({.noise = noise, .size = 0.03}, 21, static_cast<std::uint64_t>(i));
      failed += finding_of_times("total_s>0%", times).verdict == Verdict::fail ? 1 : 0;
    }
    INFO("noise " << static_cast<int>(noise));
    CHECK(failed <= kBenches / 20);
  }
}

TEST_CASE("gate: an unchanged bench fails six conditions in at most 5.5 % of 2,000 benches") {
  // The limit is 5 % plus a tenth, because outliers are dropped.
  constexpr int kBenches = 2000;
  const std::vector<Condition> all =
      conditions("total_s>0%,epoch_s>0%,startup_s>0%,first_batch_s>0%,rss_mb>0%,samples_per_s>0%");
  int failed = 0;
  for (int i = 0; i < kBenches; ++i) {
    GateComparison noisy_comparison = compare({}, {});
    for (std::size_t k = 0; k < all.size(); ++k) {
      const auto times = noisy::bench({.size = 0.03}, 22 + k, static_cast<std::uint64_t>(i));
      noisy_comparison.base[all[k].metric] = times.base;
      noisy_comparison.now[all[k].metric] = times.other;
    }
    failed += gate_code(evaluate_conditions(all, std::vector{noisy_comparison})) == 3 ? 1 : 0;
  }
  CHECK(failed <= kBenches * 55 / 1000);
}

TEST_CASE("gate: the suggested repeats detect a slowdown of 5 % and pass an unchanged bench") {
  constexpr int kBenches = 600;
  // Five repeats are made first; if these do not decide, the suggested number is made.
  const auto verdict = [](noisy::Shape shape, std::uint64_t number) {
    const Finding first = finding_of_times("total_s>+2.5%", noisy::bench(shape, 31, number));
    if (first.verdict != Verdict::inconclusive || !first.repeats) return first.verdict;
    shape.repeats = *first.repeats;
    return finding_of_times("total_s>+2.5%", noisy::bench(shape, 32, number)).verdict;
  };
  int detected = 0;
  int passed = 0;
  int false_alarms = 0;
  for (int i = 0; i < kBenches; ++i) {
    noisy::Shape shape{.noise = noisy::Noise::slow_minutes, .size = 0.02, .slower = 1.05};
    detected += verdict(shape, static_cast<std::uint64_t>(i)) == Verdict::fail ? 1 : 0;
    shape.slower = 1;
    const Verdict null = verdict(shape, static_cast<std::uint64_t>(kBenches + i));
    passed += null == Verdict::pass ? 1 : 0;
    false_alarms += null == Verdict::fail ? 1 : 0;
  }
  CHECK(detected >= 0.9 * kBenches);
  CHECK(passed >= 0.9 * kBenches);
  CHECK(false_alarms <= 0.05 * kBenches);
}

namespace {

/// Returns `count` times of one setting.
Values side(double slower, int count, std::uint64_t seed, std::uint64_t number) {
  return noisy::bench({.size = 0.02, .slower = slower, .repeats = count}, seed, number).other;
}

/// The gate suggests a number of repeats or a size of the baseline. A 0 means no suggestion.
struct Suggestion {
  int repeats = 0;
  int baseline = 0;
};
Suggestion suggestion_of(const Finding& finding) {
  const std::string words = "a baseline of at least ";
  const auto at = finding.why.find(words);
  return {finding.repeats.value_or(0),
          at == std::string::npos ? 0 : std::stoi(finding.why.substr(at + words.size()))};
}

/// Returns the verdict of five repeats against a saved baseline, or else of the suggested bench.
Verdict verdict_after_suggestion(double slower, int baseline, std::uint64_t number) {
  const std::string gate = "total_s>+2.5%";
  const Values base = side(1, baseline, 41, number);
  const Finding first = single_finding(gate, base, side(slower, 5, 42, number), Pairing::unpaired);
  const Suggestion next = suggestion_of(first);
  if (first.verdict != Verdict::inconclusive) return first.verdict;
  if (next.baseline > 0)
    return single_finding(gate, side(1, next.baseline, 43, number),
                          side(slower, next.baseline, 44, number), Pairing::unpaired)
        .verdict;
  if (next.repeats == 0) return first.verdict;
  return single_finding(gate, base, side(slower, next.repeats, 44, number), Pairing::unpaired)
      .verdict;
}

}  // namespace

TEST_CASE("gate: the suggestion for a saved baseline detects a slowdown of 5 %") {
  constexpr int kBenches = 400;
  for (const int baseline : {5, 20}) {
    int detected = 0;
    int false_alarms = 0;
    for (std::uint64_t i = 0; i < kBenches; ++i) {
      detected += verdict_after_suggestion(1.05, baseline, i) == Verdict::fail ? 1 : 0;
      false_alarms += verdict_after_suggestion(1, baseline, kBenches + i) == Verdict::fail ? 1 : 0;
    }
    INFO("baseline of " << baseline << " runs");
    CHECK(detected >= 0.9 * kBenches);
    CHECK(false_alarms <= 0.05 * kBenches);
  }
}

TEST_CASE("gate: a larger baseline is suggested if no number of repeats is enough") {
  const Values base{10, 10.6, 9.4, 10.3, 9.7};
  const Finding few = single_finding("total_s>+5%", base, scaled(base, 1.02), Pairing::unpaired);
  CHECK(few.verdict == Verdict::inconclusive);
  CHECK_FALSE(few.repeats.has_value());
  CHECK_THAT(few.why,
             Contains("the 5 repeats of the baseline are too few: save a baseline of at least"));
  CHECK(suggestion_of(few).baseline > 5);
  const Values calm{10, 10.1, 9.9, 10, 10.1, 9.9, 10, 10.1, 9.9, 10, 10.1, 9.9, 10, 10.1, 9.9};
  const Finding many = single_finding("total_s>+5%", calm, base, Pairing::unpaired);
  CHECK(many.verdict == Verdict::inconclusive);
  REQUIRE(many.repeats.has_value());
  CHECK(*many.repeats > 5);
}

TEST_CASE("gate: a saved baseline is compared unpaired, and the notes say so") {
  const Values other_day{12.0, 9.0, 10.5};
  const Finding finding = single_finding("total_s>+5%", other_day, kBase, Pairing::unpaired);
  REQUIRE(finding.interval.has_value());
  CHECK(finding.verdict == Verdict::inconclusive);
  const std::vector<Finding> all{finding};
  CHECK_THAT(gate_notes(all, Pairing::unpaired),
             Contains("do not alternate with those of this bench"));
  CHECK_THAT(gate_notes(all, Pairing::interleaved), !Contains("interleaved"));
}

TEST_CASE("gate: table and JSON have conditions, verdicts and intervals") {
  const std::vector<Finding> all{single_finding("total_s>+5%", kBase, scaled(kBase, 1.1)),
                                 single_finding("val/accuracy<-0.5pt", {0.9, 0.9}, {0.9, 0.9})};
  const std::string text = to_text(gate_table(all), {});
  CHECK_THAT(text, Contains("total_s>+5%") && Contains("fail") && Contains("pass"));
  CHECK_THAT(gate_notes(all, Pairing::interleaved),
             Contains("Failed: total_s>+5%: the interval [") && Contains("Compared with 'old'."));
  const Json document = gate_json(all);
  CHECK(document["exit_code"] == 3);
  CHECK(document["conditions"][0]["verdict"] == "fail");
  CHECK(document["conditions"][0]["interval"].size() == 2);
  CHECK(document["conditions"][1]["interval"].is_null());
  CHECK(document["conditions"][1]["unit"] == "pt");
}

TEST_CASE(
    "gate: an outlier in a saved baseline is excluded and reported, and a slowdown still fails") {
  const std::vector<Finding> findings{single_finding("total_s>+5%", {10.0, 10.1, 16.0, 9.9, 10.05},
                                                     {11.0, 11.1, 10.9, 11.05, 11.15},
                                                     Pairing::unpaired)};
  CHECK(findings[0].verdict == Verdict::fail);
  CHECK(findings[0].outliers == 1);
  CHECK_THAT(gate_notes(findings, Pairing::unpaired), Contains("1 outlier is excluded"));
  CHECK(gate_json(findings)["conditions"][0]["outliers"] == 1);
}
