#include "base/json.hpp"
#include "support/catch.hpp"
#include "support/program.hpp"
#include "support/temp_folder.hpp"

#include <fstream>

using trainctl::Json;

namespace {

std::string small_config(const TempFolder& folder) {
  const std::string path = (folder / "small.yaml").string();
  std::ofstream(path) << R"(
dataset:
  train:
    type: synthetic_digits
    samples: 1000
    transforms: [{type: random_crop, size: 28, padding: 2}, random_horizontal_flip]
loader: {batch_size: 48}
model: {type: mlp, hidden: [8]}
optimizer: {type: adam}
trainer: {max_epochs: 3}
)";
  return path;
}

Json hash_of(std::vector<std::string> words) {
  words.insert(words.begin(), {"data", "hash", "--json"});
  const ProgramRun run = run_program(words);
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  return Json::parse(run.out);
}

}  // namespace

TEST_CASE("data hash prints one digest for any workers, prefetch factor and ranks", "[smoke]") {
  const TempFolder folder;
  const std::string config = small_config(folder);
  const Json expected = hash_of({config});
  CHECK(expected["schema"] == "trainctl.data_hash/1");
  REQUIRE(expected["epochs"].size() == 3);
  CHECK(expected["epochs"][0] != expected["epochs"][1]);
  for (const char* workers : {"0", "1", "2", "8"}) {
    for (const char* prefetch : {"1", "3"}) {
      const Json found = hash_of({config, "--workers", workers, "--prefetch-factor", prefetch});
      CHECK(found["digest"] == expected["digest"]);
      CHECK(found["epochs"] == expected["epochs"]);
    }
  }
  CHECK(hash_of({config, "--world-size", "3", "--workers", "2"})["digest"] == expected["digest"]);
  CHECK(hash_of({config, "seed=1"})["digest"] != expected["digest"]);
  CHECK(hash_of({config, "--epochs", "1"})["epochs"][0] == expected["epochs"][0]);
}

TEST_CASE("data without a verb, and a number out of range, are usage errors", "[smoke]") {
  CHECK(run_program({"data"}).exit_code == 2);
  const TempFolder folder;
  const ProgramRun run = run_program({"data", "hash", small_config(folder), "--workers", "300"});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, Contains("'300' is no whole number from 0 to 256"));
}

TEST_CASE("data hash on missing files ends with 9 and says how to fetch them", "[smoke]") {
  const TempFolder folder;
  const std::string nowhere = "dataset.train={type: mnist, root: " + (folder / "nowhere").string() + "}";
  const ProgramRun run = run_program({"data", "hash", small_config(folder), nowhere});
  CAPTURE(run.err);
  CHECK(run.exit_code == 9);
  CHECK_THAT(run.err, Contains("scripts/fetch-data mnist"));
}
