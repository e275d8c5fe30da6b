#include "report/text/verify_resume.hpp"

#include "support/catch.hpp"
#include "support/golden.hpp"

using namespace trainctl;
using namespace trainctl::report;

namespace {

const StateComparison kSame{Sameness::identical, ""};

Kill identical(int number) {
  return {.number = number,
          .step = 1200,
          .died_at = 1203,
          .epoch = 1,
          .phase = "train",
          .killed = "rank 0",
          .resumed_from = "epoch=0001-step=001150",
          .failure = "",
          .ran_to_its_end = true,
          .weights = kSame,
          .optimizer = kSame,
          .losses = kSame,
          .batches = kSame};
}

ResumeCheck check_of(std::vector<Kill> kills) {
  return {.seed = 7,
          .steps = 1876,
          .epochs = 2,
          .wall_s = 12.5,
          .world_size = 2,
          .every_n_steps = 170,
          .parameter_digest = "abad1dea",
          .data_digest = "00c0ffee",
          .kills = std::move(kills),
          .folder = ""};
}

/// Returns three kills: one identical, one with other losses, one that was not resumed.
ResumeCheck three_kills() {
  Kill other = identical(2);
  other.killed = "all ranks";
  other.resumed_from.clear();
  other.losses = {Sameness::different, "step 1,204: train/loss is 0.25, expected 0.5"};
  other.batches = {Sameness::unknown, "no epoch has a hash of its batches in both runs"};
  Kill failed{.number = 3, .step = 9, .died_at = 10, .phase = "validate", .killed = "rank 1"};
  failed.failure = "resumed: rank 0 failed";
  ResumeCheck check = check_of({identical(1), other, failed});
  check.folder = "scratch";
  return check;
}

}  // namespace

TEST_CASE("verify-resume: the table has a row per kill, and the first differences below it") {
  check_golden("report/verify_resume.txt", verify_resume_text(three_kills(), {}));
  check_golden("report/verify_resume.json", to_pretty(verify_resume_json(three_kills())) + "\n");
}

TEST_CASE("verify-resume: identical runs have exit code 0") {
  const ResumeCheck check = check_of({identical(1), identical(2)});
  CHECK(exit_code_of(check) == 0);
  CHECK_THAT(verify_resume_text(check, {}),
             EndsWith("2 of 2 resumed runs are identical to the uninterrupted run\n"));
}

TEST_CASE("verify-resume: any difference or unfinished run has exit code 3") {
  for (StateComparison Kill::*member :
       {&Kill::weights, &Kill::optimizer, &Kill::losses, &Kill::batches}) {
    Kill kill = identical(1);
    kill.*member = {Sameness::different, "a bit"};
    CHECK_FALSE(is_identical(kill));
    CHECK(exit_code_of(check_of({identical(1), kill})) == 3);
  }
  Kill kill = identical(1);
  kill.weights = {};
  CHECK_FALSE(is_identical(kill));
  kill = identical(1);
  kill.batches = {};  // some data sets have no digests
  CHECK(is_identical(kill));
  kill.ran_to_its_end = false;
  CHECK(exit_code_of(check_of({identical(1), kill})) == 3);
}

TEST_CASE("verify-resume: runs that never resumed from a checkpoint have exit code 10") {
  Kill kill = identical(1);
  kill.resumed_from.clear();
  CHECK(is_identical(kill));
  CHECK(exit_code_of(check_of({kill})) == 10);
  CHECK(exit_code_of(check_of({kill, identical(2)})) == 0);
  CHECK(exit_code_of(check_of({})) == 10);
}
