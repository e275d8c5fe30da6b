#include "config/schema/dump.hpp"
#include "experiment_yaml.hpp"
#include "spec/options/scheduler.hpp"
#include "support/catch.hpp"

using trainctl::spec::scheduler::Interval;
using trainctl::spec::scheduler::intervals_of;
using trainctl::spec::scheduler::WarmupLength;
using WarmupUnit = WarmupLength::Unit;

namespace {

std::string scheduler_with(const std::string& warmup, const std::string& interval = "step") {
  return "scheduler={type: constant, interval: " + interval + ", warmup: " + warmup + "}";
}

const trainctl::config::Stage& scheduler_of(const trainctl::spec::Loaded& loaded) {
  return loaded.experiment.scheduler;
}

WarmupLength length_of(const std::string& text) {
  const trainctl::spec::Loaded loaded = load_valid({scheduler_with(text)});
  return trainctl::spec::scheduler::warmup_of(scheduler_of(loaded))->warmup;
}

std::string problem_of(const std::string& warmup) { return problems_of({scheduler_with(warmup)}); }

}  // namespace

TEST_CASE("warm-up: a length is a number of intervals or epochs, or a fraction", "[spec]") {
  CHECK(length_of("0") == WarmupLength{0, WarmupUnit::intervals});
  CHECK(length_of("500") == WarmupLength{500, WarmupUnit::intervals});
  CHECK(length_of("3ep") == WarmupLength{3, WarmupUnit::epochs});
  CHECK(length_of("0.5ep") == WarmupLength{0.5, WarmupUnit::epochs});
  CHECK(length_of("\"3ep\"") == WarmupLength{3, WarmupUnit::epochs});
  CHECK(length_of("0.05") == WarmupLength{0.05, WarmupUnit::run});
  CHECK(length_of("5e-2") == WarmupLength{0.05, WarmupUnit::run});
}

TEST_CASE("warm-up: a length is written as it was read", "[spec]") {
  for (const std::string text : {"0", "500", "3ep", "0.5ep", "0.05", "0.0"}) {
    const trainctl::spec::Loaded loaded = load_valid({scheduler_with(text)});
    const trainctl::config::Node written = write_stage(scheduler_of(loaded));
    CHECK(written.find("warmup")->text == text);
  }
}

TEST_CASE("warm-up: the error for an invalid length lists the three forms", "[spec]") {
  for (const char* text : {"5eps", "ep", "five", "-3ep", "1.2.3ep", "5 ep", ".ep", "2000000ep"}) {
    INFO(text);
    CHECK_THAT(problem_of(text),
               Contains("'warmup' must be a count in the unit of 'interval' (500), a number of "
                        "epochs (5ep) or a fraction of the run (0.05)"));
  }
  CHECK_THAT(problem_of("5.0"),
             Contains("is a fraction of the run and must be below 1, got '5.0'") &&
                 Contains("5ep for epochs"));
  CHECK_THAT(problem_of("-1"), Contains("'warmup' must be"));
  CHECK_THAT(problem_of("-0.5"), Contains("'warmup' must be at least 0"));
  CHECK_THAT(problem_of("[1]"), Contains("'warmup'"));
}

TEST_CASE("warm-up: lengths are converted to intervals of the schedule", "[spec]") {
  const auto steps = [](WarmupLength length) {
    return intervals_of(length, {Interval::step, 40, 1000});
  };
  CHECK(steps({7, WarmupUnit::intervals}) == 7);
  CHECK(steps({2, WarmupUnit::epochs}) == 80);
  CHECK(steps({0.5, WarmupUnit::epochs}) == 20);
  CHECK(steps({0.25, WarmupUnit::run}) == 250);
  CHECK(steps({0.0001, WarmupUnit::run}) == 1);
  CHECK(steps({0, WarmupUnit::run}) == 0);
  CHECK(intervals_of({2, WarmupUnit::epochs}, {Interval::epoch, 0, 25}) == 2);
  CHECK(intervals_of({2, WarmupUnit::epochs}, {Interval::step, 0, {}}) == std::nullopt);
  CHECK(intervals_of({0.1, WarmupUnit::run}, {Interval::step, 40, {}}) == std::nullopt);
}

TEST_CASE("warm-up: a length that does not fit the run or the interval is an error", "[spec]") {
  CHECK_THAT(problems_of({scheduler_with("5ep", "epoch")}),
             Contains("the warm-up of 5 epochs must be shorter than the run of 5 epochs"));
  CHECK_THAT(problems_of({scheduler_with("2.5ep", "epoch")}),
             Contains("a warm-up of 2.5 epochs ends within an epoch") &&
                 Contains("write 'interval: step'"));
  CHECK_THAT(problems_of({scheduler_with("0.05", "epoch")}),
             Contains("a warm-up of 0.25 epochs ends within an epoch") &&
                 Contains("write 'interval: step'"));
  CHECK_THAT(problems_of({scheduler_with("0.3", "epoch")}), Contains("a warm-up of 1.5 epochs"));
  CHECK(problems_of({scheduler_with("0.2", "epoch")}).empty());
  CHECK_THAT(problems_of({scheduler_with("0.1"), "~trainer.max_epochs", "trainer.max_time=1h"}),
             Contains("'warmup' is a fraction of the run, whose length is unknown if only "
                      "trainer.max_time is set"));
  for (const char* valid : {"4ep", "0.9", "2.5ep"})
    CHECK(problems_of({scheduler_with(valid)}).empty());
}

TEST_CASE("warm-up: the JSON Schema accepts numbers and epochs", "[spec]") {
  const trainctl::Json schema = trainctl::config::json_schema(trainctl::spec::experiment_schema(),
                                                              trainctl::spec::builtin_vocabulary());
  const trainctl::Json& forms =
      schema["$defs"]["scheduler.constant"]["properties"]["warmup"]["anyOf"];
  const std::string text = forms.dump();
  CHECK_THAT(text, Contains(R"("type":"number")") && Contains(R"("type":"string")"));
}
