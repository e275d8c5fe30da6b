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
  CHECK_THAT(run.err, Contains("there is no folder ") && !Contains(".tmp."));
  CHECK(run_program({"data", "show", small_config(folder)}).exit_code == 2);
}

TEST_CASE("data with a verb it has not names the nearest one", "[smoke]") {
  const ProgramRun run = run_program({"data", "stat", "x.yaml"});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, Contains("unknown verb 'stat'; did you mean 'stats'?"));
  CHECK_THAT(run_program({"data", "foo"}).err, Contains("unknown verb 'foo'"));
}

TEST_CASE("data stats tells the columns of a table as they are in the file", "[smoke]") {
  const TempFolder folder;
  std::ofstream(folder / "t.csv") << "rooms,area,kind,price\n1,10,a,100\n3,,b,300\n5,30,,200\n";
  const std::string config = (folder / "t.yaml").string();
  std::ofstream(config) << "dataset: {train: {type: csv, path: t.csv, label: price, label_type: "
                           "number, categorical: [kind], missing: constant, standardize: true, "
                           "statistics_from: t.csv, missing_markers: ['']}}\n"
                           "model: {type: mlp, hidden: [8]}\noptimizer: {type: adam}\n"
                           "loss: {type: mse}\ntrainer: {max_epochs: 2}\n";
  const ProgramRun run = run_program({"data", "stats", config});
  CAPTURE(run.err);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("area") && Contains("20") && Contains("target"));
  const Json found = run_program({"data", "stats", config, "--json"}).json();
  REQUIRE(found["features"].size() == 3);
  CHECK(found["features"][0]["mean"] == 3.0);
  CHECK(found["features"][1]["missing"] == 1);
  CHECK(found["features"][1]["mean"] == 20.0);
  CHECK(found["features"][2]["missing"] == 1);
  CHECK(found["features"][2]["mean"].is_null());
  CHECK(found["targets"][0]["min"] == 100.0);
  CHECK(found["targets"][0]["max"] == 300.0);
}

TEST_CASE("data stats shows ten classes and counts the others", "[smoke]") {
  const TempFolder folder;
  std::ofstream table(folder / "t.csv");
  table << "x,y\n";
  for (char name = 'a'; name < 'a' + 14; ++name) table << "1," << name << name << "\n";
  table.close();
  const std::string config = (folder / "t.yaml").string();
  std::ofstream(config) << "dataset: {train: {type: csv, path: t.csv, label: y}}\n"
                           "model: {type: mlp, hidden: [8]}\noptimizer: {type: adam}\n"
                           "trainer: {max_epochs: 2}\n";
  const ProgramRun run = run_program({"data", "stats", config});
  CHECK_THAT(run.out, Contains(" jj ") && !Contains(" kk ") && Contains("and 4 more"));
  CHECK(run_program({"data", "stats", config, "--json"}).json()["class_names"][13] == "nn");
}

TEST_CASE("data show refuses a sheet that nobody could look at, and counts one sample", "[smoke]") {
  const TempFolder folder;
  const std::string config = small_config(folder);
  const std::string out = (folder / "x.png").string();
  const ProgramRun one = run_program({"data", "show", config, "--out", out, "--samples", "1"});
  CHECK_THAT(one.out, Contains("1 sample of epoch 1"));
  const ProgramRun run =
      run_program({"data", "show", config, "--out", out, "--samples", "1000",
                   "dataset.train.transforms=[{type: resize, size: [2000, 2000]}]"});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, Contains("a picture of 1000 images of 2000x2000 would take"));
}

TEST_CASE("validate and data hash know the parts of one data set", "[smoke]") {
  const TempFolder folder;
  const std::string config = (folder / "split.yaml").string();
  std::ofstream(config) << R"(
dataset:
  train: {type: synthetic_digits, samples: 500, transforms: [{type: random_crop, size: 28, padding: 2}]}
  val: {transforms: []}
  split: {val: 0.2, test: 0.1, stratify: true}
loader: {batch_size: 50}
model: {type: mlp, hidden: [8]}
optimizer: adam
trainer: {max_epochs: 1, accelerator: cpu}
)";
  const ProgramRun valid = run_program({"validate", config, "-vv"});
  CAPTURE(valid.err);
  CHECK(valid.exit_code == 0);
  CHECK_THAT(valid.err, Contains("dataset.train: 350 samples") &&
                            Contains("dataset.val: 100 samples") &&
                            Contains("dataset.test: 50 samples"));
  const Json seed0 = hash_of({config});
  CHECK(hash_of({config, "--workers", "2"})["digest"] == seed0["digest"]);
  CHECK(hash_of({config, "dataset.split.seed=1"})["digest"] != seed0["digest"]);
  CHECK(hash_of({config, "++dataset.val=~"})["digest"] == seed0["digest"]);
  const ProgramRun wrong =
      run_program({"validate", config, "dataset.val={type: synthetic_digits, split: test}"});
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, Contains("dataset.val must not name a data set"));
  const ProgramRun random = run_program({"validate", config, "~dataset.val"});
  CHECK(random.exit_code == 2);
  CHECK_THAT(random.err, Contains("dataset.val: the transforms must be written") &&
                             !Contains("dataset.test: the transforms"));
}
