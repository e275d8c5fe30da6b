#include "base/error.hpp"
#include "study/fake_run.hpp"
#include "study/folder/run_folder.hpp"
#include "study/run/run.hpp"
#include "support/catch.hpp"

#include <fstream>

using namespace trainctl;

namespace {

study::Sinks no_sinks(const fs::path& /*run_dir*/) { return {}; }

/// Creates a file that counts as safetensors, because its content is never read here.
study::RunRequest request(const TempFolder& folder, const std::string& script) {
  study::RunRequest request = fake_run::request(folder, script);
  std::ofstream(folder / "best.safetensors") << "weights";
  request.job = {spec::JobKind::evaluate, "val", folder / "best.safetensors"};
  return request;
}

std::string one_split() {
  using fake_run::emit;
  return emit(events::Hello{.host = "here", .device = "cpu"}) +
         emit(events::TableRow{"val/confusion_matrix", 0, 0, {3, 1}}) +
         emit(events::TableRow{"val/confusion_matrix", 0, 1, {0, 4}}) +
         emit(events::Evaluated{.split = "val",
                                .checkpoint = "best.safetensors",
                                .samples = 8,
                                .outputs = 2,
                                .targets = "classes",
                                .metrics = {{"val/loss", 0.25}, {"val/accuracy", 0.875}}}) +
         emit(events::Finished{.global_step = 1, .stop_reason = "end_of_split"});
}

}  // namespace

TEST_CASE("evaluation: passes the job to its worker and writes a result.json of its kind") {
  TempFolder folder;
  const study::RunOutcome outcome =
      study::run_experiment(request(folder, one_split()), no_sinks, steady_clock());
  CHECK(outcome.ending.exit_code == 0);
  const spec::Job job = spec::read_job(outcome.folder);
  CHECK(job.kind == spec::JobKind::evaluate);
  CHECK(job.weights == folder / "best.safetensors");
  CHECK_FALSE(fs::exists(outcome.folder / "checkpoints"));
  const Json result =
      Json::parse(read_file(outcome.folder / "result.json", 1 << 20, ReadFailure::resource));
  CHECK(result == outcome.result);
  CHECK(result["schema"] == "trainctl.evaluation/2");
  CHECK(result["metrics"] == Json({{"loss", 0.25}, {"accuracy", 0.875}}));
  CHECK(result["tables"]["confusion_matrix"] == Json::parse("[[3,1],[0,4]]"));
  CHECK(result["samples"] == 8);
}

TEST_CASE("evaluation: the result of a failure has all keys without values") {
  TempFolder folder;
  const study::RunOutcome outcome =
      study::run_experiment(request(folder, "exit 10\n"), no_sinks, steady_clock());
  CHECK(outcome.ending.exit_code == 10);
  CHECK_FALSE(outcome.ending.trains);
  CHECK(outcome.result["exit_code"] == 10);
  CHECK(outcome.result["metrics"].is_null());
  CHECK(outcome.result["first_failure"]["rank"] == 0);
}

TEST_CASE("evaluation: an invalid weights file is an error before a worker starts") {
  TempFolder folder;
  study::RunRequest broken = request(folder, "touch \"$0.started\"\n");
  broken.job.weights = folder / "nothing.pth";
  std::ofstream(folder / "nothing.pth") << "PK\x03\x04 and no archive";
  const study::RunOutcome outcome = study::run_experiment(broken, no_sinks, steady_clock());
  CHECK(outcome.ending.exit_code == 10);
  CHECK_THAT(outcome.ending.message, StartsWith("--checkpoint: "));
  CHECK_FALSE(fs::exists(folder / "worker.sh.started"));
}

TEST_CASE("evaluation: the scratch folder is removed unless it is kept") {
  TempFolder folder;
  fs::path gone;
  fs::path kept;
  {
    study::ScratchFolder first(folder.path());
    study::ScratchFolder second(folder.path());
    std::ofstream(first.path() / "file") << "text";
    second.keep();
    gone = first.path();
    kept = second.path();
    CHECK(gone != kept);
  }
  CHECK_FALSE(fs::exists(gone));
  CHECK(fs::exists(kept));
  CHECK_THROWS_AS(study::ScratchFolder(folder / "none"), Error);
}
