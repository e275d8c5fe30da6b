#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <limits>

using namespace trainctl;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::unique_ptr<stage::Stopper> make_patience(const std::string& options) {
  return stages::builtin_catalog().stoppers.build(
      stages_test::stage("stopper", "patience", options), {});
}

/// Returns one character per epoch: + improved, . not improved, ! stopped, * improved and stopped.
std::string decisions(const std::string& options, const std::vector<double>& values) {
  const auto stopper = make_patience(options);
  std::string out;
  for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
    const auto decision = stopper->observe(static_cast<std::int64_t>(epoch), values[epoch]);
    CHECK(decision.stop == !decision.reason.empty());
    out += decision.stop ? (decision.improved ? '*' : '!') : (decision.improved ? '+' : '.');
  }
  return out;
}

}  // namespace

TEST_CASE("patience: stops after the given number of validations without improvement") {
  struct Row {
    std::string options;
    std::vector<double> values;
    std::string expected;
  };
  const std::vector<Row> rows{
      {"{patience: 2}", {3, 2, 1}, "+++"},
      {"{patience: 2}", {3, 3, 3}, "+.!"},
      {"{patience: 2}", {3, 4, 2, 5, 6}, "+.+.!"},
      {"{patience: 1}", {3, 3}, "+!"},
      {"{patience: 0}", {3, 2, 2}, "++!"},
      {"{monitor: val/accuracy, patience: 2}", {0.5, 0.6, 0.6, 0.5}, "++.!"},
      {"{monitor: val/accuracy, mode: min, patience: 2}", {0.5, 0.6, 0.6}, "+.!"},
      {"{patience: 2, min_delta: 0.5}", {3, 2.6, 2.4, 2, 2}, "+.+.!"},
      {"{monitor: val/accuracy, patience: 2, min_delta: 0.1}",
       {0.5, 0.55, 0.65, 0.7, 0.7},
       "+.+.!"},
      {"{stopping_threshold: 1}", {3, 1.1, 1}, "++*"},
      {"{monitor: val/accuracy, stopping_threshold: 0.9}", {0.5, 0.95}, "+*"},
      {"{divergence_threshold: 10}", {3, 10, 10.5}, "+.!"},
      {"{monitor: val/accuracy, divergence_threshold: 0.2}", {0.3, 0.2, 0.1}, "+.!"},
      {"{patience: 2}", {kNan, kNan}, ".!"},
      {"{patience: 3}", {2, kNan, 1, kNan}, "+.+."},
      {"{patience: 2}", {-kInf, 3}, ".+"},
      {"{monitor: val/accuracy, patience: 2}", {kInf, 0.5}, ".+"},
      {"{divergence_threshold: 10}", {3, kNan}, "+!"},
  };
  for (const Row& row : rows) {
    INFO(row.options);
    CHECK(decisions(row.options, row.values) == row.expected);
  }
}

TEST_CASE("patience: the reason gives the monitored value, the threshold and the best value") {
  const auto impatient = make_patience("{patience: 2}");
  impatient->observe(0, 0.25);
  impatient->observe(1, 0.5);
  CHECK(impatient->observe(2, 0.5).reason ==
        "val/loss has not improved for 2 validations (best 0.25 in epoch 1)");

  CHECK(make_patience("{patience: 1}")->observe(0, kNan).reason ==
        "val/loss has not improved for 1 validation (no finite value yet)");
  CHECK(make_patience("{stopping_threshold: 0.5}")->observe(0, 0.25).reason ==
        "val/loss reached 0.25 (stopping_threshold 0.5)");
  CHECK(make_patience("{divergence_threshold: 2}")->observe(0, 3).reason ==
        "val/loss is 3, worse than divergence_threshold 2");
}

TEST_CASE("patience: monitor() and restore_best() return the configured values") {
  CHECK(make_patience("{}")->monitor() == "val/loss");
  CHECK(make_patience("{monitor: val/accuracy}")->monitor() == "val/accuracy");
  CHECK_FALSE(make_patience("{}")->restore_best());
  CHECK(make_patience("{restore_best: true}")->restore_best());
}
