#include "report/compare/comparison.hpp"
#include "report/invented.hpp"
#include "report/record/run_files.hpp"
#include "report/record/run_result.hpp"
#include "report/sinks/console_sink.hpp"
#include "report/sinks/sink.hpp"
#include "report/text/run_summary.hpp"
#include "support/catch.hpp"

#include <array>
#include <memory>
#include <string>

using namespace trainctl;
using namespace trainctl::report;

namespace {

/// Returns the console's output for an epoch on the device.
std::string console_table_on(const std::string& device) {
  std::string printed;
  ConsoleOptions options;
  options.results_style.width = 200;
  options.results = [&](std::string_view text) { printed += text; };
  options.messages = [](std::string_view) {};
  const std::unique_ptr<Sink> sink = make_console_sink(std::move(options));
  if (!device.empty()) sink->on_event(0, events::Hello{.device = device});
  sink->on_event(0, invented::epoch(0));
  return printed;
}

RunFiles run_with_gpus(const Json& gpus) {
  RunFiles run;
  run.manifest = {{"machine", {{"gpus", gpus}}}};
  return run;
}

}  // namespace

TEST_CASE("transfer_name: the epoch table has a column 'convert' on a CPU and 'h2d' on a GPU") {
  CHECK_THAT(console_table_on("cpu"), Contains(" convert ") && !Contains("h2d"));
  CHECK_THAT(console_table_on("cuda:0"), Contains(" h2d ") && !Contains("convert"));
  CHECK_THAT(console_table_on(""), Contains(" h2d "));
}

TEST_CASE("transfer_name: the summary says 'convert' on a CPU and 'h2d' on a GPU") {
  for (const std::string device : {"cpu", "cuda:0"}) {
    RunRecord record = invented::run();
    record.hellos[0].device = device;
    for (events::EpochEnded& epoch : record.epochs) epoch.timing.h2d_s = epoch.timing.wall_s / 10;
    const std::string text = summary_text(record, invented::ending(), {});
    CAPTURE(device, text);
    CHECK((text.find("convert 10 %") != std::string::npos) == (device == "cpu"));
    CHECK((text.find("h2d 10 %") != std::string::npos) == (device != "cpu"));
  }
}

TEST_CASE("transfer_name: files keep the key h2d_s on every device") {
  const auto columns = timing_columns(invented::epoch(0).timing);
  CHECK(columns[2].first == "h2d_s");
}

TEST_CASE("transfer_name: pages and comparisons use the machines of the runs") {
  const RunFiles cpu = run_with_gpus(Json::array());
  const RunFiles gpu = run_with_gpus(Json::array({"/dev/nvidia0"}));
  RunFiles forced = gpu;
  forced.values = {{"trainer.accelerator", "cpu"}};
  const auto name_of = [](std::initializer_list<const RunFiles*> runs) {
    return std::string(transfer_name(std::span(runs.begin(), runs.size())));
  };
  CHECK(name_of({&cpu}) == "convert batches");
  CHECK(name_of({&gpu}) == "copy to device");
  CHECK(name_of({&forced, &cpu}) == "convert batches");
  CHECK(name_of({&cpu, &gpu}) == "copy or convert");
  const RunFiles unknown;
  CHECK(name_of({&unknown}) == "copy to device");
}
