#include "support/catch.hpp"
#include "support/program.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

// What a verb does without CONFIG.

namespace {

namespace fs = std::filesystem;
using trainctl::Json;

const std::string kSources = TRAINCTL_SOURCE_DIR;

constexpr const char* kOwnConfig = R"(name: mine
dataset: {train: {type: synthetic_images, height: 8, width: 8, classes: 3, samples: 64}}
model: linear
optimizer: sgd
trainer: {max_epochs: 1}
)";

ProgramRun run_in(const TempFolder& folder, const std::vector<std::string>& words) {
  return run_program(words, {.environment = {{"XDG_CACHE_HOME", (folder / ".cache").string()}},
                             .folder = folder.path()});
}

// Verbs that need no engine and no run.
const std::vector<std::vector<std::string>> kFrontVerbs{
    {"validate"},
    {"show-config"},
    {"plan", "--no-model"},
    {"data", "hash", "--epochs", "1", "--workers", "0"},
    {"data", "bench", "--workers", "0"},
    {"data", "show", "--out", "grid.png"},
};

}  // namespace

TEST_CASE("without CONFIG a verb uses ./config.yaml and says so", "[smoke]") {
  const TempFolder folder;
  put_text(folder / "config.yaml", kOwnConfig);
  for (const std::vector<std::string>& words : kFrontVerbs) {
    const ProgramRun run = run_in(folder, words);
    CAPTURE(words, run.out, run.err);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.err, StartsWith("no CONFIG given: using ./config.yaml\n"));
  }
}

TEST_CASE("without CONFIG and config.yaml a verb uses a built-in experiment and says so",
          "[smoke]") {
  const TempFolder folder;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"validate"},
                                             {"show-config"},
                                             {"plan", "--no-model"},
                                             {"validate", "optimizer.lr=0.01"}}) {
    const ProgramRun run = run_in(folder, words);
    CAPTURE(words, run.out, run.err);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.err,
               StartsWith("no CONFIG given: using the built-in experiment builtin:quickstart "));
  }
  const ProgramRun photographs = run_in(folder, {"data", "hash", "--epochs", "1", "--workers", "2",
                                                 "dataset.train.samples=8", "loader.batch_size=4"});
  CHECK(photographs.exit_code == 0);
  CHECK_THAT(photographs.err, Contains("builtin:photographs"));
  CHECK(fs::exists(folder / ".cache/trainctl/photographs/v1-train-8"));
}

TEST_CASE("a config.yaml that cannot be read is an error, not a reason for the built-in one",
          "[smoke]") {
  const TempFolder folder;
  fs::create_symlink("nowhere.yaml", folder / "config.yaml");
  const ProgramRun run = run_in(folder, {"validate"});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, Contains("cannot read config.yaml"));
}

TEST_CASE("the line about CONFIG is left out by --quiet and --json", "[smoke]") {
  const TempFolder folder;
  CHECK(run_in(folder, {"validate", "--quiet"}).err.empty());
  const ProgramRun json = run_in(folder, {"show-config", "--json"});
  CHECK(json.err.empty());
  CHECK(json.json()["files"] == Json::array({"builtin:quickstart"}));
}

TEST_CASE("a built-in experiment is the file in configs/", "[smoke]") {
  const TempFolder folder;
  for (const std::string name : {"quickstart", "photographs"}) {
    const Json builtin = run_in(folder, {"show-config", "builtin:" + name, "--json"}).json();
    const Json file =
        run_in(folder, {"show-config", kSources + "/configs/" + name + ".yaml", "--json"}).json();
    CHECK(builtin["config"] == file["config"]);
  }
  const ProgramRun unknown = run_in(folder, {"validate", "builtin:quickstar"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("unknown built-in experiment 'quickstar'") &&
                              Contains("did you mean 'quickstart'?"));
}

TEST_CASE("the error of a missing CONFIG names the closest file", "[smoke]") {
  const TempFolder folder;
  put_text(folder / "configs/mine.yaml", kOwnConfig);
  const ProgramRun run = run_in(folder, {"validate", "mine.yml"});
  CHECK(run.exit_code == 2);
  CHECK(run.err ==
        "error: cannot read mine.yml: there is no such file; did you mean "
        "'configs/mine.yaml'?\n");
}

TEST_CASE("README shows the two commands that need no file", "[smoke]") {
  std::ifstream file(kSources + "/README.md");
  std::stringstream text;
  text << file.rdbuf();
  CHECK_THAT(text.str(), Contains("\ntrainctl run\n"));
  CHECK_THAT(text.str(), Contains("\ntrainctl bench --workers 0,4,8\n"));
}
