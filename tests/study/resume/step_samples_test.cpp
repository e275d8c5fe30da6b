#include "base/error.hpp"
#include "study/resume/config_changes.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using study::ChangeEffect;
using study::ConfigChange;
using study::StepSamples;

namespace {

std::vector<ConfigChange> batch_change(const std::string& before, const std::string& now) {
  return {{"loader.batch_size", before, now, ChangeEffect::refused},
          {"seed", "1", "2", ChangeEffect::refused}};
}

}  // namespace

TEST_CASE("global_batch_notice: contains the new global batch and the batch size that keeps it") {
  const StepSamples doubled{1, 2, 50, 50};
  CHECK(study::global_batch_notice(doubled) ==
        "the global batch is now 100 instead of 50: 2 ranks with loader.batch_size 50, previously "
        "1 with "
        "50; loader.batch_size=25 keeps the global batch of 50");
  CHECK_THAT(study::global_batch_notice({2, 3, 50, 50}),
             Contains("is now 150 instead of 100") &&
                 Contains("no loader.batch_size keeps the global batch"));
  CHECK(study::global_batch_notice({1, 2, 50, 25}).empty());
  CHECK(study::global_batch_notice({2, 2, 50, 50}).empty());
  CHECK(study::global_batch_notice({2, 0, 50, 50}).empty());
}

TEST_CASE("accept_same_global_batch: accepts only the batch size that keeps the global batch") {
  auto changes = batch_change("50", "25");
  study::accept_same_global_batch(changes, {1, 2, 50, 25});
  CHECK(changes[0].effect == ChangeEffect::not_bitwise);
  CHECK(changes[0].why == "the global batch stays 50");
  CHECK(changes[1].effect == ChangeEffect::refused);

  auto other = batch_change("50", "30");
  const StepSamples samples{1, 2, 50, 30};
  study::accept_same_global_batch(other, samples);
  CHECK(other[0].effect == ChangeEffect::refused);
  try {
    study::refuse_changes(other, "checkpoint", study::same_global_batch_clause(samples));
    FAIL("no error was thrown");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Contains("loader.batch_size: 50 -> 30; loader.batch_size=25 keeps the "
                                      "global batch of 50\n  seed: 1 -> 2"));
  }
}
