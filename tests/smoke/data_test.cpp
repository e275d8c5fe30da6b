#include "base/json.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/program.hpp"
#include "support/temp_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

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
  for (const char* workers : {"0", "1", "2", "8", "auto"}) {
    for (const char* prefetch : {"1", "3", "auto"}) {
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
  for (const char* word : {"-1", "2.5", "Auto", "automatic", "", " 2"}) {
    CAPTURE(word);
    const std::string flag = std::string("--prefetch-factor=") + word;
    CHECK(run_program({"data", "hash", small_config(folder), flag}).exit_code == 2);
  }
}

TEST_CASE("data hash on missing files ends with 9 and says how to fetch them", "[smoke]") {
  const TempFolder folder;
  const std::string nowhere =
      "dataset.train={type: mnist, root: " + (folder / "nowhere").string() + "}";
  const ProgramRun run = run_program({"data", "hash", small_config(folder), nowhere});
  CAPTURE(run.err);
  CHECK(run.exit_code == 9);
  CHECK_THAT(run.err, Contains("scripts/fetch-data mnist"));
}

TEST_CASE("data bench measures each worker count in a process of its own, beside the limit",
          "[smoke]") {
  const TempFolder folder;
  const std::string config = small_config(folder);
  // Numbers of any width stand in columns of any width.
  const auto squeezed = [](const std::string& text) {
    std::string line;
    std::unique_copy(text.begin(), text.end(), std::back_inserter(line),
                     [](char a, char b) { return (a == ' ' || a == '-') && a == b; });
    return line;
  };
  const std::vector<std::string> words{"data",      "bench", config,     "--workers", "0,2",
                                       "--repeats", "2",     "--epochs", "2"};
  const ProgramRun table = run_program(words, {.environment = {{"LC_ALL", "C"}}});
  CAPTURE(table.err);
  CHECK(table.exit_code == 0);
  check_golden("cli/data_bench.txt", squeezed(table.out));
  CHECK_THAT(table.err, Contains("round 2 of 2  workers=2"));

  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  const Json document = run_program(as_json).json();
  CHECK(document["schema"] == "trainctl.data_bench/1");
  REQUIRE(document["rows"].size() == 2);
  const std::string digest = hash_of({config, "--epochs", "1"})["epochs"][0];
  for (const Json& row : document["rows"]) {
    CHECK(row["digest"] == digest);
    CHECK(row["identical"] == true);
    CHECK(row["limit"]["name"] == "gather");
    CHECK(row["samples_per_s"]["q1"] <= row["samples_per_s"]["median"]);
    for (const char* key : {"cpu_s_per_1k", "p50_ms", "p99_ms", "rss_mb"}) CHECK(row[key] > 0);
  }
}

TEST_CASE("data bench takes loader.num_workers where no workers are given", "[smoke]") {
  const TempFolder folder;
  const ProgramRun run = run_program({"data", "bench", small_config(folder), "loader.num_workers=3",
                                      "--repeats", "1", "--epochs", "1", "--quiet", "--json"});
  CHECK(run.json()["rows"][0]["workers"] == 3);
  CHECK(run.err.empty());
}

TEST_CASE("data bench says what auto took and why, and reads through the cache", "[smoke]") {
  const TempFolder folder;
  std::vector<std::string> words{"data",     "bench", small_config(folder), "--workers", "auto,1",
                                 "--epochs", "1",     "--repeats",          "1"};
  CHECK_THAT(run_program(words).out, Contains("auto took ") && Contains("probe: a batch takes "));
  words.emplace_back("--json");
  const Json rows = run_program(words).json()["rows"];
  CHECK_THAT(rows[0]["auto"].get<std::string>(), StartsWith("probe: "));
  CHECK(rows[1]["auto"].is_null());
  CHECK(rows[0]["digest"] == rows[1]["digest"]);
  words.emplace_back("dataset.train.transforms=[{type: resize, size: 64}]");
  words.emplace_back("dataset.cache={mode: decoded, budget: 1KiB}");
  CHECK(run_program(words).exit_code == 11);
}

TEST_CASE("data bench refuses worker counts that are none, and two lengths at once", "[smoke]") {
  const TempFolder folder;
  const auto bench = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"data", "bench", small_config(folder)});
    const ProgramRun run = run_program(words);
    CHECK(run.exit_code == 2);
    return run.err;
  };
  CHECK_THAT(bench({"--workers", "0,two"}),
             Contains("'two' is no number of threads from 0 to 256"));
  CHECK_THAT(bench({"--workers", "257"}), Contains("'257' is no number"));
  CHECK_THAT(bench({"--workers", "2,2"}), Contains("given twice"));
  bench({"--epochs", "1", "--seconds", "1"});
  bench({"--seconds", "0"});
}

TEST_CASE("data stats prints the line for normalize, the classes and the sizes", "[smoke]") {
  const TempFolder folder;
  const ProgramRun table =
      run_program({"data", "stats", small_config(folder)}, {.environment = {{"LC_ALL", "C"}}});
  CHECK(table.exit_code == 0);
  check_golden("cli/data_stats.txt", table.out);
  const Json document =
      run_program({"data", "stats", small_config(folder), "--json", "--workers", "2"}).json();
  CHECK(document["schema"] == "trainctl.data_stats/1");
  CHECK(document["samples"] == 1000);
  CHECK(document["mean"].size() == 1);
  CHECK(document["classes"].size() == 10);
  CHECK(document["sizes"][0]["samples"] == 1000);
}

TEST_CASE("data stats and data show say which split is missing", "[smoke]") {
  const TempFolder folder;
  const ProgramRun missing =
      run_program({"data", "stats", small_config(folder), "--split", "test"});
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, Contains("the experiment has no dataset.test"));
  CHECK(run_program({"data", "show", small_config(folder), "--split", "tests", "--out", "x.png"})
            .exit_code == 2);
}

TEST_CASE("data show writes a picture of the first samples of an epoch", "[smoke]") {
  const TempFolder folder;
  const std::string config = small_config(folder);
  const std::string out = (folder / "sheet.png").string();
  const Json document =
      run_program({"data", "show", config, "--out", out, "--samples", "5", "--json"}).json();
  CHECK(document["schema"] == "trainctl.data_show/1");
  CHECK(document["labels"].size() == 5);
  CHECK(document["image"] == Json::array({28, 28, 1}));
  const std::string first = golden::read(out);
  CHECK_THAT(first, StartsWith("\x89PNG"));
  run_program({"data", "show", config, "--out", out, "--samples", "5", "--epoch", "2"});
  CHECK(golden::read(out) != first);
  run_program({"data", "show", config, "--out", out, "--samples", "5", "loader.num_workers=3"});
  CHECK(golden::read(out) == first);
}

TEST_CASE("data show into a missing folder ends with 11, without a file with 2", "[smoke]") {
  const TempFolder folder;
  const ProgramRun run =
      run_program({"data", "show", small_config(folder), "--out", (folder / "a/b.png").string()});
  CHECK(run.exit_code == 11);
  CHECK(run_program({"data", "show", small_config(folder)}).exit_code == 2);
}
