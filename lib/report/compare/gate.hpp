#pragma once

#include "report/compare/bench.hpp"

namespace trainctl::report {

/// below: the condition fails if the change is below the bound.
enum class Side { below, above };
/// percent: of the base; points: hundredths of the metric's unit, for fractions such as accuracy.
enum class Unit { percent, points };

/// A limit such as "samples_per_s<-2.5%" on the change of a number.
struct Condition {
  std::string metric;
  Side side = Side::below;
  double bound = 0;  // -2.5 for "-2.5%", -0.5 for "-0.5pt"
  Unit unit = Unit::percent;
  std::string text;  // as written, without spaces
};

/// Parses "samples_per_s<-2.5%, rss_mb>+10%, val/accuracy<-0.5pt". `metrics` are the metrics that
/// the runs will have in addition to kMeasures. Throws Error(config) that marks every mistake in
/// the text.
std::vector<Condition> parse_conditions(std::string_view text,
                                        std::span<const std::string> metrics);

/// interleaved: the i-th runs of both sides ran next to each other; apart: on different days.
enum class Pairing { interleaved, unpaired };

/// The two sides of a comparison.
struct GateComparison {
  std::string technique;  // of the side that is tested
  std::string against;    // the name of the base
  Samples base;
  Samples now;
  Pairing pairing = Pairing::interleaved;
};

enum class Verdict { pass, fail, inconclusive };
constexpr std::array<const char*, 3> enum_names(Verdict) {
  return {"pass", "fail", "inconclusive"};
}

/// The result of a condition in a contest. Changes are in the condition's unit: -5 is -5 %.
struct Finding {
  Condition condition;
  std::string technique;
  std::string against;
  Verdict verdict = Verdict::inconclusive;
  std::optional<double> base = {};  // mean of the repeats
  std::optional<double> now = {};
  std::optional<double> change = {};
  std::optional<Interval> interval = {};  // absent: no variation, or too few numbers
  std::optional<int> repeats = {};        // repeats that would decide an inconclusive result
  std::size_t outliers = 0;               // dropped repeats or pairs, see statistics.hpp
  std::string why = {};                   // a sentence
};

/// Evaluates each condition: a change passes or fails if its interval lies on one side of the
/// bound. Metrics that are equal in all runs of a side are compared exactly. The intervals are 95 %
/// for one or two conditions and wider for more, so that a gate whose bounds are all 0 fails by
/// chance in at most 5 % of the cases for any number of conditions (Bonferroni).
std::vector<Finding> evaluate_conditions(std::span<const Condition> conditions,
                                         std::span<const GateComparison> contests);

/// Returns "%" or "pt".
std::string unit_text(Unit unit);
/// Returns a text such as "[-6.10, -3.90] %".
std::string interval_text(const Interval& interval, Unit unit);

/// Returns the confidence level of the intervals for that many comparisons of varying numbers.
double level_for(std::size_t comparisons);

/// Returns 3 if a condition failed, else 4 if one is inconclusive, else 0.
int gate_code(std::span<const Finding> findings);

Table gate_table(std::span<const Finding> findings);
/// Returns one line for each finding that did not pass, and the overall verdict.
std::string gate_notes(std::span<const Finding> findings, Pairing pairing);
/// Returns the findings as they appear in the bench's document.
Json gate_json(std::span<const Finding> findings);

}  // namespace trainctl::report
