#include "train/measure/profiler.hpp"

#include "base/files.hpp"
#include "base/json.hpp"
#include "support/catch.hpp"
#include "train/fake_run.hpp"

#include <ATen/record_function.h>

#include <fstream>
#include <sstream>

using namespace trainctl;

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::int64_t recorded(const Json& trace, const std::string& name) {
  std::int64_t count = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event.value("name", "") == name && event.value("ph", "") == "X") ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("profiler: the steps after the warm-up are in the trace and the operator table") {
  FakeRun run({.samples = 40, .batch = 4, .val_samples = 0});
  run.options.profiler = spec::Profiler{.wait = 2, .warmup = 1, .active = 3};
  run.run();
  const Json trace = Json::parse(text_of(run.folder / "profile/trace.json"));
  CHECK(recorded(trace, "forward") == 3);
  CHECK(recorded(trace, "backward") == 3);
  CHECK(recorded(trace, "aten::linear") == 3);
  const std::string table = text_of(run.folder / "profile/operators.txt");
  CHECK_THAT(table, Contains("aten::addmm") && Contains("self ms"));
  CHECK_THAT(text_of(run.folder / "profile/operators.csv"), Contains("[4, 6]"));
}

TEST_CASE("profiler: writes a table of the layers of the recorded steps") {
  FakeRun run({.samples = 40, .batch = 4, .val_samples = 0});
  run.options.profiler = spec::Profiler{.wait = 2, .warmup = 1, .active = 3};
  run.run();
  const std::string csv = text_of(run.folder / "profile/layers.csv");
  CHECK_THAT(
      csv, Contains("\n\"bias\",linear,1,") && Contains("\"[4, 3]\"") && Contains("\n\"(loss)\""));
  CHECK_THAT(text_of(run.folder / "profile/layers.txt"), StartsWith("Mean times of 3 steps."));
}

TEST_CASE("profiler: operators are observed only in the recorded steps") {
  FakeRun run({.samples = 40, .batch = 4, .val_samples = 0});
  run.options.profiler = spec::Profiler{.wait = 2, .warmup = 1, .active = 3};
  std::vector<bool> observed;
  run.loss.after = [&](const at::Tensor& loss, int) {
    observed.push_back(at::hasCallbacks());
    return loss;
  };
  run.run();
  CHECK(observed ==
        std::vector<bool>{false, false, false, true, true, true, false, false, false, false});
}

TEST_CASE(
    "profiler: NVTX ranges do not change the result and cause a warning without CUDA support") {
  FakeRun plain;
  plain.run();
  FakeRun named;
  named.options.profiler = spec::Profiler{.wait = 0, .warmup = 0, .active = 1, .nvtx = true};
  named.run();
  CHECK(named.model.weight.equal(plain.model.weight));
  const auto warnings = named.all<events::Warning>();
  REQUIRE(warnings.size() == (train::PartRanges::available() ? 0 : 1));
  if (!warnings.empty()) CHECK_THAT(warnings[0].message, Contains("no CUDA support"));
}

TEST_CASE("profiler: a run that ends during the recorded steps keeps those recorded so far") {
  FakeRun run({.samples = 16, .batch = 4, .val_samples = 0});
  run.options.profiler = spec::Profiler{.wait = 1, .warmup = 0, .active = 100};
  run.run();
  const Json trace = Json::parse(text_of(run.folder / "profile/trace.json"));
  CHECK(recorded(trace, "forward") == 3);
}

TEST_CASE(
    "profiler: recording does not change the result, and a run that ends before it writes "
    "no files") {
  FakeRun plain;
  plain.run();
  FakeRun early;
  early.options.profiler = spec::Profiler{.wait = 100};
  early.run();
  CHECK_FALSE(std::filesystem::exists(early.folder / "profile"));
  FakeRun recording;
  recording.options.profiler = spec::Profiler{.wait = 0, .warmup = 0, .active = 5};
  recording.run();
  CHECK(recording.model.weight.equal(plain.model.weight));
}

TEST_CASE("profiler: with accumulated batches it counts optimizer steps") {
  FakeRun run({.samples = 40, .batch = 4, .val_samples = 0});
  run.options.accumulate = 2;
  run.options.profiler = spec::Profiler{.wait = 1, .warmup = 0, .active = 2};
  run.run();
  const Json trace = Json::parse(text_of(run.folder / "profile/trace.json"));
  CHECK(recorded(trace, "forward") == 4);
  CHECK(recorded(trace, "optimizer") == 2);
}

TEST_CASE("profiler: a run that ends before the recorded steps causes a warning") {
  FakeRun run({.samples = 12, .batch = 4, .val_samples = 0});
  run.options.profiler = spec::Profiler{.wait = 9, .warmup = 1, .active = 3};
  run.run();
  CHECK_FALSE(std::filesystem::exists(run.folder / "profile"));
  const auto warnings = run.all<events::Warning>();
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0].message, Contains("no profile was written") && Contains("3 steps"));
}
