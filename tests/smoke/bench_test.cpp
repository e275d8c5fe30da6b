#include "support/catch.hpp"
#include "support/program.hpp"
#include "support/temp_folder.hpp"

#include <filesystem>
#include <string>
#include <vector>

// What bench refuses before it starts anything; whole benches are in run_test.py.

namespace {

ProgramRun bench(const TempFolder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), {"bench", TRAINCTL_SOURCE_DIR "/configs/quickstart.yaml"});
  return run_program(words, {.folder = folder.path().string()});
}

}  // namespace

TEST_CASE("bench checks every setting before it starts a process", "[smoke]") {
  TempFolder folder;
  const ProgramRun below = bench(folder, {"--workers", "0,-2"});
  CHECK(below.exit_code == 2);
  CHECK_THAT(below.err, Contains("'loader.num_workers=-2'") && Contains("at least 0"));
  const ProgramRun unknown = bench(folder, {"--grid", "optimizer.lrr=1,2"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("unknown key 'lrr'") && Contains("did you mean 'lr'?"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("bench says what is wrong with a list of values", "[smoke]") {
  TempFolder folder;
  CHECK_THAT(bench(folder, {"--workers", "0,,4"}).err, Contains("an empty value in '0,,4'"));
  CHECK_THAT(bench(folder, {"--workers", "4,4"}).err, Contains("the value 4 is given twice"));
  CHECK_THAT(bench(folder, {"--grid", "lr"}).err, Contains("'lr' is no axis"));
  CHECK_THAT(bench(folder, {"--workers", "0", "--grid", "loader.num_workers=1"}).err,
             Contains("is given twice"));
  CHECK(bench(folder, {"--repeats", "0"}).exit_code == 2);
}

TEST_CASE("an override behind any flag of bench is an override", "[smoke]") {
  const std::vector<std::vector<std::string>> flags{
      {"--workers", "0"},          {"--devices", "1"},
      {"--batch-size", "64"},      {"--precision", "32-true"},
      {"--pin-memory", "true"},    {"--grid", "seed=1,2"},
      {"--repeats", "1"},          {"--out", "elsewhere"},
      {"--save", "saved.json"},    {"--markdown"},
      {"--cache", "none"},         {"--budget", "1m"},
      {"--csv", "runs.csv"},       {"--junit", "junit.xml"},
      {"--fail-on", "total_s>1%"}, {"--baseline", "base.json"},
      {"--force-baseline"}};
  for (std::vector<std::string> words : flags) {
    TempFolder folder;
    words.insert(words.end(), {"~metrics", "optimizer.lrr=3"});
    const ProgramRun run = bench(folder, words);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains("unknown key 'lrr'"));
  }
}

TEST_CASE("bench says what is wrong with a gate, all at once and before a run", "[smoke]") {
  TempFolder folder;
  const ProgramRun names =
      bench(folder, {"--workers", "0,2", "--fail-on", "sample_per_s<-5%, val/acuracy<-1"});
  CHECK(names.exit_code == 2);
  CHECK_THAT(names.err, Contains("has 3 mistakes") && Contains("did you mean 'samples_per_s'?") &&
                            Contains("did you mean 'val/accuracy'?") && Contains("no unit"));
  const ProgramRun alone = bench(folder, {"--fail-on", "total_s>5%"});
  CHECK(alone.exit_code == 2);
  CHECK_THAT(alone.err, Contains("there is no other") && Contains("--baseline FILE"));
  const ProgramRun silent = bench(folder, {"--baseline", "base.json"});
  CHECK(silent.exit_code == 2);
  CHECK_THAT(silent.err, Contains("add them, as in --fail-on"));
  CHECK_THAT(bench(folder, {"--force-baseline"}).err, Contains("belongs to --baseline"));
  CHECK_THAT(bench(folder, {"--budget", "soon"}).err, Contains("'soon' is no time"));
  CHECK_THAT(bench(folder, {"--fail-on", "total_s>5%", "--baseline", "base.json"}).err,
             Contains("base.json"));
  CHECK(std::filesystem::is_empty(folder.path()));
}
