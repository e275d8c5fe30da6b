#pragma once

#include "base/json.hpp"
#include "report/compare/bench.hpp"
#include "report/compare/statistics.hpp"
#include "report/text/table.hpp"

namespace trainctl::report {

/// below: it fails where the change is below the bound.
enum class Side { below, above };
/// percent of the base; points: hundredths of the metric's own unit, for shares such as accuracy.
enum class Unit { percent, points };

/// "samples_per_s<-2.5%": the change of a number that no later run may show.
struct Condition {
  std::string metric;
  Side side = Side::below;
  double bound = 0;  // -2.5 for "-2.5%", -0.5 for "-0.5pt"
  Unit unit = Unit::percent;
  std::string text;  // as it was written, without spaces
};

/// "samples_per_s<-2.5%, rss_mb>+10%, val/accuracy<-0.5pt". `metrics` are those that the runs will
/// tell beside kMeasures. Throws Error(config) that shows every mistake at its place.
std::vector<Condition> parse_conditions(std::string_view text,
                                        std::span<const std::string> metrics);

/// interleaved: the i-th runs of both sides were neighbors; apart: they are of other days.
enum class Pairing { interleaved, apart };

/// Two sides that are compared.
struct Contest {
  std::string technique;  // of the side that is judged
  std::string against;    // what the other side is
  Samples base;
  Samples now;
  Pairing pairing = Pairing::interleaved;
};

enum class Verdict { pass, fail, inconclusive };
constexpr std::array<const char*, 3> enum_names(Verdict) {
  return {"pass", "fail", "inconclusive"};
}

/// A condition, as it turned out in a contest. Changes are in the condition's unit: -5 is -5 %.
struct Finding {
  Condition condition;
  std::string technique;
  std::string against;
  Verdict verdict = Verdict::inconclusive;
  std::optional<double> base = {};  // mean of the repeats
  std::optional<double> now = {};
  std::optional<double> change = {};
  std::optional<Interval> interval = {};  // none where the numbers do not vary, or are too few
  std::optional<int> repeats = {};        // that would decide, of an inconclusive one
  std::size_t outliers = 0;               // repeats or pairs that were dropped, see change.hpp
  std::string why = {};                   // a sentence
};

/// A change passes or fails where its interval lies on one side of the bound. Metrics that are the
/// same in all runs of a side are compared as they are. The intervals are of 95 % for one or two
/// conditions and wider for more, so that a gate whose bounds are all 0 fails by chance in 5 % of
/// the cases at most, however many there are (Bonferroni).
std::vector<Finding> judge(std::span<const Condition> conditions,
                           std::span<const Contest> contests);

/// "%", "pt".
std::string unit_text(Unit unit);
/// "[-6.10, -3.90] %".
std::string interval_text(const Interval& interval, Unit unit);

/// Level of the intervals where `comparisons` of numbers that vary are made.
double level_for(std::size_t comparisons);

/// 3 where one failed, else 4 where one is inconclusive, else 0.
int gate_code(std::span<const Finding> findings);

Table gate_table(std::span<const Finding> findings);
/// One line for each finding that did not pass, and what the verdict is.
std::string gate_notes(std::span<const Finding> findings, Pairing pairing);
Json gate_json(std::span<const Finding> findings);

}  // namespace trainctl::report
