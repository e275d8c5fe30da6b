#include "report/compare/baseline.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

#include <map>
#include <string>
#include <vector>

using namespace trainctl;
using namespace trainctl::report;

namespace {

Machine machine() {
  Machine machine;
  machine.cpu_model = "Zen";
  machine.cores = 8;
  machine.memory_bytes = 64ULL << 30;
  machine.gpu_models = {"NVIDIA H200"};
  return machine;
}

std::string saved() {
  const Trial trial{.total_s = 10, .startup_s = 1, .epoch_s = {4, 3}, .samples_per_s = 100};
  Trial other = trial;
  other.metrics = {{"train/loss", 0.5}};
  other.rss_mb = 300;
  std::vector<BenchRow> rows{
      {"num_workers=0", {{"loader.num_workers", "0"}}, {other, other}, {}},
      {"num_workers=4", {{"loader.num_workers", "4"}}, {trial, other}, {}},
      {"num_workers=8", {{"loader.num_workers", "8"}}, {}, TrialFailure{9, "no file"}}};
  return to_pretty(bench_document(rows, {.config = "a.yaml",
                                         .machine = machine_key(machine()),
                                         .config_hash = "00ff",
                                         .config_resolved = "seed: 1\n"}));
}

std::string error_of(const std::string& text) {
  try {
    (void)read_baseline(text, "base.json");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  text.replace(text.find(what), what.size(), by);
  return text;
}

}  // namespace

TEST_CASE("Baseline: a saved bench is read back with rows, machine and config") {
  const Baseline baseline = read_baseline(saved(), "base.json");
  REQUIRE(baseline.rows.size() == 2);  // the failed row has no numbers
  CHECK(baseline.config_resolved == "seed: 1\n");
  CHECK(machine_differences(baseline.machine, machine_key(machine())).empty());
  const Samples& samples = baseline.rows[0].samples;
  CHECK(samples.at("total_s") == std::vector<double>{10, 10});
  CHECK(samples.at("epoch_s") == std::vector<double>{3, 3});
  CHECK(samples.at("rss_mb") == std::vector<double>{300, 300});
  CHECK(samples.at("train/loss") == std::vector<double>{0.5, 0.5});
  CHECK_FALSE(samples.contains("gpu_mem_mb"));
  CHECK_FALSE(baseline.rows[1].samples.contains("train/loss"));  // one of the two runs lacks it
}

TEST_CASE("Baseline: a row matches equal settings, or the only row if that has no settings") {
  Baseline baseline = read_baseline(saved(), "base.json");
  CHECK(row_for(baseline, {{"loader.num_workers", "4"}}) == &baseline.rows[1]);
  CHECK(row_for(baseline, {{"loader.num_workers", "2"}}) == nullptr);
  baseline.rows.pop_back();
  CHECK(row_for(baseline, {{"loader.num_workers", "2"}}) == nullptr);
  CHECK(row_for(baseline, {}) == nullptr);
  baseline.rows[0].settings.clear();
  CHECK(row_for(baseline, {{"loader.num_workers", "2"}}) == &baseline.rows[0]);
  CHECK(row_for(baseline, {}) == &baseline.rows[0]);
}

TEST_CASE("machine_differences: only properties that determine the speed are compared") {
  const Json here = machine_key(machine());
  Machine other = machine();
  other.host = "node8";
  other.kernel = "6.2";
  other.memory_bytes += 1 << 20;
  CHECK(machine_key(other) == here);
  other.cores = 2;
  other.gpu_models.clear();
  const auto differences = machine_differences(machine_key(other), here);
  REQUIRE(differences.size() == 2);
  CHECK(differences[0] == "cores: 2 in the baseline, 8 in this bench");
  CHECK_THAT(differences[1], Contains("gpus: [] in the baseline, [\"NVIDIA H200\"] in this bench"));
  CHECK(machine_key(other)["hash"] != here["hash"]);
}

TEST_CASE("machine_of_manifest: returns the same key as machine_key") {
  const Json manifest{{"hardware",
                       {{"cpu", "Zen"},
                        {"cores", 8},
                        {"memory_bytes", std::uint64_t{64} << 30},
                        {"gpu_models", {"NVIDIA H200"}}}}};
  const Json key = machine_of_manifest(manifest);
  CHECK(key["memory_gib"] == 64);
  CHECK(machine_differences(key, machine_key(machine())).empty());
  CHECK(machine_of_manifest(nullptr).is_null());
  CHECK(machine_of_manifest(Json{{"hardware", 7}}).is_null());
}

TEST_CASE("machine_differences: a baseline without a recorded machine differs") {
  const Json here = machine_key(machine());
  for (const Json& unrecorded : {Json(nullptr), Json::object(), Json("Zen"), Json{{"cpus", 1}}}) {
    REQUIRE(machine_differences(unrecorded, here).size() == 1);
    CHECK_THAT(machine_differences(unrecorded, here)[0],
               Contains("machine of the baseline is not recorded"));
  }
}

TEST_CASE("Baseline: the memory format of each config is read and validated") {
  Json document = Json::parse(saved());
  const auto memory_formats = [&] {
    return read_baseline(to_pretty(document), "base.json").channels_last;
  };
  CHECK(memory_formats().empty());  // older versions of trainctl do not write it
  document["channels_last"] = nullptr;
  CHECK(memory_formats().empty());
  document["channels_last"] = {{"00ff", true}, {"11ee", false}};
  CHECK(memory_formats() == std::map<std::string, bool>{{"00ff", true}, {"11ee", false}});
  document["channels_last"] = {{"00ff", "yes"}};
  CHECK_THAT(error_of(to_pretty(document)),
             Contains("'00ff' of 'channels_last' must be true or false"));
  document["channels_last"] = 3;
  CHECK_THAT(error_of(to_pretty(document)), Contains("'channels_last' must be an object"));
}

TEST_CASE("Baseline: a file that is not a baseline is an error") {
  CHECK_THAT(error_of(""), Contains("base.json is not valid JSON"));
  CHECK_THAT(error_of(saved().substr(0, 500)), Contains("truncated"));
  CHECK_THAT(error_of("[1]"), Contains("the document must be an object"));
  CHECK_THAT(error_of("{}"), Contains("the document has no 'schema'"));
  CHECK_THAT(error_of(R"({"schema": 3})"), Contains("'schema' of the document must be a string"));
  CHECK_THAT(error_of(R"({"schema": "trainctl.result/2"})"),
             Contains("got 'trainctl.result/2'") && Contains("bench --save"));
  CHECK_THAT(error_of(R"({"schema": "trainctl.bench/3"})"),
             Contains("with this version of trainctl"));
  CHECK_THAT(error_of(R"({"schema": "trainctl.bench/2", "rows": {}})"), Contains("must be a list"));
  CHECK_THAT(error_of(R"({"schema": "trainctl.bench/2", "rows": []})"),
             Contains("contains no successful run"));
  CHECK_THAT(error_of(R"({"schema": "trainctl.bench/2", "rows": [7]})"),
             Contains("row 1 must be an object"));
}

TEST_CASE("Baseline: an error in a row names the row and the value") {
  CHECK_THAT(error_of(replaced(saved(), "\"trials\"", "\"trails\"")), Contains("older trainctl"));
  CHECK_THAT(error_of(replaced(saved(), "\"samples_per_s\": 100.0,\n          \"rss",
                               "\"samples_per_s\": \"fast\",\n          \"rss")),
             Contains("'samples_per_s' of run 1 of row 1 must be a number"));
  CHECK_THAT(error_of(replaced(saved(), "\"loader.num_workers\": \"0\"", "\"a\\u001b\": 0")),
             Contains("setting 'a\\x1b' of row 1 must be a string"));
}

TEST_CASE("Baseline: deeply nested JSON is an error") {
  const std::string deep(1'000'000, '[');
  CHECK_THAT(error_of(deep), Contains("is not valid JSON"));
  const std::string closed = R"({"schema": "trainctl.bench/2", "machine": )" +
                             std::string(100'000, '[') + std::string(100'000, ']') + "}";
  CHECK_THAT(error_of(closed), Contains("is not valid JSON"));
}
