#include "checkpoint/store.hpp"
#include "engine/resumed_run.hpp"
#include "support/catch.hpp"
#include "support/manual_clock.hpp"

#include <algorithm>
#include <memory>

using namespace trainctl;
using namespace resumed;

TEST_CASE("resume: a run stopped after any step is bitwise equal to an uninterrupted one") {
  for (const Variant& variant : variants()) {
    const RunTrace expected = uninterrupted(variant);
    const std::int64_t steps = (6 + variant.accumulate - 1) / variant.accumulate;
    for (const std::int64_t step : {std::int64_t{1}, steps - 1, steps, steps + 1, 2 * steps}) {
      INFO(variant.optimizer << " with " << variant.scheduler << " stopped after step " << step);
      check_same(interrupted(variant, after_step(step)), expected);
    }
  }
}

TEST_CASE("resume: a run stopped during validation repeats that validation") {
  for (const Variant& variant : variants()) {
    INFO(variant.optimizer << " with " << variant.scheduler);
    check_same(interrupted(variant, in_validation(1)), uninterrupted(variant));
  }
}

namespace {

const std::vector<Variant>& validating_variants() {
  static const std::vector<Variant> all{{.optimizer = "adamw",
                                         .optimizer_options = "{lr: 0.05}",
                                         .ema = true,
                                         .dropout = 0.3,
                                         .validation_interval = 2},
                                        {.scheduler = "reduce_lr_on_plateau",
                                         .scheduler_options = "{patience: 0, threshold: 0.5}",
                                         .accumulate = 2,
                                         .validation_interval = 1}};
  return all;
}

}  // namespace

TEST_CASE("val_check_interval: a stop at any step or in any validation changes nothing") {
  for (const Variant& variant : validating_variants()) {
    const RunTrace expected = uninterrupted(variant);
    const std::int64_t steps = 6 / variant.accumulate;
    for (std::int64_t step = 1; step <= 2 * steps; ++step) {
      INFO(variant.optimizer << " stopped after step " << step);
      check_same(interrupted(variant, after_step(step)), expected);
    }
    for (int number = 1; number <= 6; ++number) {  // two of three are within an epoch
      INFO(variant.optimizer << " stopped in validation " << number);
      check_same(interrupted(variant, in_validation(number)), expected);
    }
  }
}

TEST_CASE("val_check_interval: a run killed after a save repeats no validation of its history") {
  const Variant variant = validating_variants()[0];
  const RunTrace expected = uninterrupted(variant);
  at::manual_seed(5);
  const auto first = make(variant);
  first->options.saving->every_n_steps = 1;
  first->options.saving->top_k = -1;
  first->run();
  std::vector<std::int64_t> all;
  for (const auto& validated : first->all<events::Validated>())
    all.push_back(validated.global_step);
  CHECK(all == std::vector<std::int64_t>{2, 4, 8, 10, 14, 16, 20, 22});
  for (const auto& found : checkpoint::Store(first->folder.path() / "checkpoints").list()) {
    INFO(found.name);
    const auto second = make(variant);
    second->resume = found.path;
    RunTrace trace;
    add_end(*second, second->run(), trace);
    CHECK(trace.weights == expected.weights);
    CHECK(trace.finished == expected.finished);
    std::vector<std::int64_t> later;
    for (const auto& validated : second->all<events::Validated>())
      later.push_back(validated.global_step);
    const auto is_earlier = [&](std::int64_t step) { return step <= found.moment.global_step; };
    CHECK(later == std::vector(std::ranges::find_if_not(all, is_earlier), all.end()));
  }
}

TEST_CASE("unfreeze_at: a run stopped after any step resumes with the same parameters frozen") {
  for (const std::int64_t accumulate : {1, 2}) {
    const Variant variant{.optimizer = "adamw",
                          .optimizer_options = "{lr: 0.05}",
                          .accumulate = accumulate,
                          .dropout = 0.3,
                          .frozen_epochs = 2};
    const RunTrace expected = uninterrupted(variant);
    CHECK(expected.weights != uninterrupted({.optimizer = "adamw",
                                             .optimizer_options = "{lr: 0.05}",
                                             .accumulate = accumulate,
                                             .dropout = 0.3})
                                  .weights);
    for (std::int64_t step = 1; step < 4 * 6 / accumulate; ++step) {
      INFO("stopped after step " << step);
      check_same(interrupted(variant, after_step(step)), expected);
    }
  }
}

TEST_CASE("gan: a run stopped after any step resumes with both networks") {
  for (const std::string loss : {"non_saturating", "hinge"}) {
    const Variant variant{.optimizer = "adamw",
                          .optimizer_options = "{lr: 0.05}",
                          .ema = loss == "hinge",
                          .gan = loss};
    const RunTrace expected = uninterrupted(variant);
    for (std::int64_t step = 1; step < 4 * 6; ++step) {
      INFO(loss << " stopped after step " << step);
      check_same(interrupted(variant, after_step(step)), expected);
    }
  }
}

TEST_CASE("resume: every checkpoint of a run gives the same result") {
  Variant variant = variants()[1];
  const RunTrace expected = uninterrupted(variant);
  at::manual_seed(5);
  const auto first = make(variant);
  first->options.saving->every_n_steps = 4;
  first->options.saving->top_k = -1;
  first->run();
  const checkpoint::Store store(first->folder.path() / "checkpoints");
  const auto all = store.list();
  CHECK(all.size() == 4 + 6);  // after each epoch, and after steps 4, 8, ... 24
  for (const checkpoint::StoredCheckpoint& found : all) {
    INFO(found.name);
    REQUIRE(found.manifest.has_value());
    const auto second = make(variant);
    second->resume = found.path;
    RunTrace trace;
    add_end(*second, second->run(), trace);
    CHECK(trace.weights == expected.weights);
    CHECK(trace.optimizer == expected.optimizer);
    CHECK(trace.finished == expected.finished);
  }
}

TEST_CASE("resume: a finished run continues with more epochs and otherwise ends immediately") {
  Variant variant;
  const auto whole = make(variant);
  const events::Finished expected = whole->run();
  const auto first = make(variant);
  first->options.max_epochs = 2;
  CHECK(first->run().epochs == 2);
  CHECK(first->saved_the_end);
  const auto again = make(variant);
  again->options.max_epochs = 2;
  again->resume = last_of(*first);
  CHECK(again->run().global_step == 12);
  CHECK(again->all<events::StepLogged>().empty());
  const auto more = make(variant);
  more->resume = last_of(*first);
  const events::Finished finished = more->run();
  CHECK(finished.epochs == 4);
  CHECK(finished.parameter_digest == expected.parameter_digest);
  CHECK(finished.data_digest == expected.data_digest);
}

TEST_CASE("resume: a larger max_steps continues the epoch that max_steps ended") {
  for (const Variant& variant : variants()) {
    INFO(variant.optimizer << " with " << variant.scheduler);
    const RunTrace expected = uninterrupted(variant);
    const std::int64_t steps = (6 + variant.accumulate - 1) / variant.accumulate;
    at::manual_seed(5);
    const auto first = make(variant);
    first->options.max_steps = steps + 1;
    const events::Finished cut = first->run();
    if (!variant.stops_early) CHECK(cut.stop_reason == "max_steps");
    CHECK(cut.epochs == 2);
    REQUIRE(first->saved_the_end);
    CHECK(first->all<events::EpochEnded>().size() == 2);
    const auto again = make(variant);
    again->options.max_steps = steps + 1;
    again->resume = last_of(*first);
    const events::Finished same = again->run();
    CHECK(same.stop_reason == cut.stop_reason);
    CHECK(same.parameter_digest == cut.parameter_digest);
    CHECK(again->all<events::StepLogged>().empty());
    CHECK(again->saved_the_end);
    const auto longer = make(variant);
    longer->resume = last_of(*first);
    RunTrace trace;
    add_end(*longer, longer->run(), trace);
    CHECK(trace.weights == expected.weights);
    CHECK(trace.optimizer == expected.optimizer);
    CHECK(trace.finished == expected.finished);
  }
}

TEST_CASE("max_time: counts the time of all attempts of a run") {
  const auto timed = [](double seconds) {
    auto run = make({});
    const auto clock = std::make_shared<ManualClock>();
    run->clock = clock;
    run->options.max_time_s = seconds;
    run->loss.after = [clock](const at::Tensor& loss, int) {
      clock->advance(1);
      return loss;
    };
    return run;
  };
  const auto first = timed(9.5);
  const events::Finished cut = first->run();
  REQUIRE(cut.stop_reason == "max_time");
  REQUIRE(first->saved_the_end);
  const auto again = timed(9.5);
  again->resume = last_of(*first);
  const events::Finished same = again->run();
  CHECK(same.stop_reason == "max_time");
  CHECK(same.global_step == cut.global_step);
  const auto longer = timed(12.5);
  longer->resume = last_of(*first);
  const events::Finished more = longer->run();
  CHECK(more.stop_reason == "max_time");
  CHECK(more.global_step > cut.global_step);
  CHECK(more.global_step <= cut.global_step + 4);
}

TEST_CASE("resume: the timing of a resumed epoch includes the earlier attempts") {
  const auto timed = [](std::optional<std::int64_t> max_steps) {
    auto run = make({});
    const auto clock = std::make_shared<ManualClock>();
    run->clock = clock;
    run->options.max_epochs = 2;
    run->options.max_steps = max_steps;
    run->loss.after = [clock](const at::Tensor& loss, int) {
      clock->advance(1);
      return loss;
    };
    return run;
  };
  const auto whole = timed({});
  whole->run();
  const events::EpochEnded expected = whole->all<events::EpochEnded>().back();
  const auto first = timed(8);  // of 6 per epoch
  first->run();
  const auto second = timed(10);
  second->resume = last_of(*first);
  second->run();
  const auto third = timed({});
  third->resume = last_of(*second);
  third->run();
  REQUIRE(third->all<events::EpochEnded>().size() == 1);
  const events::EpochEnded resumed = third->all<events::EpochEnded>().front();
  CHECK(resumed.epoch == expected.epoch);
  CHECK(resumed.timing.wall_s == Approx(expected.timing.wall_s));
  CHECK(resumed.timing.forward_s == Approx(expected.timing.forward_s));
  CHECK(resumed.timing.eval_s == Approx(expected.timing.eval_s));
  CHECK(resumed.timing.samples == expected.timing.samples);
  CHECK(resumed.timing.samples_per_s == Approx(expected.timing.samples_per_s));
}
