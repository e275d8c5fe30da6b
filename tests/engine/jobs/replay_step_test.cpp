#include "engine/engine_run.hpp"
#include "spec/experiment/job.hpp"
#include "support/catch.hpp"
#include "train/debug/numerics_file.hpp"

#include <filesystem>
#include <fstream>
#include <string>

using namespace trainctl;
using engine_run::run_engine;

namespace {

/// Runs until the training loss is not finite, and returns the file of the saved step.
std::filesystem::path saved_step(const TempFolder& folder) {
  std::string config = engine_run::kSmall;
  config.replace(config.find("adam, lr: 0.01"), 14, "sgd, lr: 1.0e+30");
  REQUIRE(run_engine(folder, config).code == 6);
  const std::filesystem::path diverged = folder / "diverged";
  REQUIRE(std::filesystem::exists(diverged));
  return std::filesystem::directory_iterator(diverged)->path() / "rank_0.part";
}

events::Replayed replay_of(const TempFolder& folder, const std::filesystem::path& step) {
  spec::Job job;
  job.kind = spec::JobKind::replay;
  job.replay = step;
  std::ofstream(folder / spec::kJobFile) << spec::dump_job(job);
  const engine_run::Ended ended = run_engine(folder, "", 0, "replay");
  REQUIRE(ended.code == 0);
  const auto* replayed = ended.find<events::Replayed>();
  REQUIRE(replayed != nullptr);
  return *replayed;
}

}  // namespace

TEST_CASE("replay: a step is repeated bitwise equal, or the result says what differs") {
  const TempFolder folder;
  const std::filesystem::path step = saved_step(folder);
  const events::Replayed same = replay_of(folder, step);
  CHECK(same.bitwise);
  CHECK(same.why_not.empty());
  CHECK(same.initialized.empty());

  train::Numerics numerics = train::read_numerics(step);
  numerics.record.device = "cuda:9";
  numerics.record.num_threads = 3;
  numerics.record.random_kept = false;
  numerics.record.repeated = false;
  REQUIRE(train::write_numerics(step, numerics, 1 << 30) > 0U);
  const events::Replayed other = replay_of(folder, step);
  CHECK_FALSE(other.bitwise);
  CHECK(other.why_not ==
        "device was cuda:9 and is now cpu; number of threads was 3 and is now 1; the RNG state was "
        "not "
        "saved; the results of the step were not saved");
}
