#include "report/invented.hpp"
#include "report/sinks/prometheus_sink.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <regex>
#include <set>

using namespace trainctl;
using namespace trainctl::report;

namespace {

struct Page {
  std::map<std::string, double> samples;  // the key is "name{labels}"
  std::map<std::string, std::string> types;
};

/// Parses the file as strictly as node_exporter does: HELP and TYPE before the samples, each metric
/// in one block, numeric values, no duplicate samples.
Page parsed(const std::string& text) {
  const std::regex help(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) \S.*)");
  const std::regex type(R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (gauge|counter))");
  const std::regex sample(
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"(?:,[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*")*\})? (NaN|[+-]Inf|-?[0-9.]+(?:e[+-]?[0-9]+)?))re");
  Page page;
  std::set<std::string> names_with_help;
  std::string current;
  REQUIRE(text.ends_with('\n'));
  for (const std::string& line : golden::lines_of(text)) {
    CAPTURE(line);
    std::smatch found;
    if (std::regex_match(line, found, help)) {
      CHECK(names_with_help.insert(found[1]).second);
      current = found[1];
    } else if (std::regex_match(line, found, type)) {
      CHECK(found[1] == current);
      page.types[found[1]] = found[2];
    } else {
      REQUIRE(std::regex_match(line, found, sample));
      CHECK(found[1] == current);
      CHECK(page.types.contains(found[1]));
      const std::string number = found[3];
      const double value = number == "NaN" ? std::nan("") : std::stod(number);
      CHECK(page.samples.emplace(found[1].str() + found[2].str(), value).second);
    }
  }
  return page;
}

PrometheusOptions writing_to(const std::filesystem::path& file) {
  return {.file = file,
          .every_s = 15,
          .run = "a \"b\"\\\n",
          .host = "node7",
          .info = {{"version", "1.2.3"}},
          .restarts = 2,
          .wall_time = [] { return 1'700'000'000.25; }};
}

const std::string kCommon = R"re({run="a \"b\"\\\n",host="node7")re";

}  // namespace

TEST_CASE("prometheus_text: labels and numbers follow the Prometheus text format") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<PrometheusMetric> metrics{
      {"a_total", "Of a\\b\nc.", PrometheusType::counter, {{{{"x", "\"\\\n\xff"}}, 1e300}}},
      {"none", "No samples.", PrometheusType::gauge, {}},
      {"b",
       "B.",
       PrometheusType::gauge,
       {{{{"i", "1"}}, inf}, {{{"i", "2"}}, -inf}, {{{"i", "3"}}, std::nan("")}}}};
  CHECK(prometheus_text(metrics, {}) ==
        "# HELP a_total Of a\\\\b\\nc.\n# TYPE a_total counter\n"
        "a_total{x=\"\\\"\\\\\\n\xef\xbf\xbd\"} 1e+300\n"
        "# HELP b B.\n# TYPE b gauge\n"
        "b{i=\"1\"} +Inf\nb{i=\"2\"} -Inf\nb{i=\"3\"} NaN\n");
}

TEST_CASE("PrometheusSink: the file shows the state of the run from start to end") {
  TempFolder folder;
  const auto file = folder / "trainctl.prom";
  const auto sink = make_prometheus_sink(writing_to(file));
  Page page = parsed(golden::read(file));
  CHECK(page.samples.at("trainctl_up" + kCommon + "}") == 1);
  CHECK(page.samples.at("trainctl_restarts_total" + kCommon + "}") == 2);
  CHECK(page.samples.contains("trainctl_run_info" + kCommon + ",version=\"1.2.3\"}"));
  CHECK_FALSE(page.samples.contains("trainctl_exit_code" + kCommon + "}"));
  sink->on_event(0, events::RunStarted{.world_size = 2, .max_epochs = 5});
  sink->on_event(0, events::CheckpointSaved{.path = "c", .global_step = 900, .verified = true});
  sink->on_event(1, events::RankEpoch{.rank = 1, .steps = 10, .data_wait_s = 1, .step_s = 5});
  sink->on_event(0, events::Warning{"slow", {}});
  sink->on_event(0, invented::epoch(0));
  page = parsed(golden::read(file));
  const auto value = [&](const std::string& name, const std::string& labels = "") {
    return page.samples.at(name + kCommon + labels + "}");
  };
  CHECK(value("trainctl_step_total") == 938);
  CHECK(page.types.at("trainctl_step_total") == "counter");
  CHECK(value("trainctl_epoch") == 1);
  CHECK(value("trainctl_epochs_planned") == 5);
  CHECK(value("trainctl_world_size") == 2);
  CHECK(value("trainctl_metric", ",metric=\"val/loss\"") == 0.125);
  CHECK(value("trainctl_epoch_seconds", ",part=\"data_wait\"") == 0.54);
  CHECK(value("trainctl_rank_step_seconds", ",rank=\"1\"") == 0.5);
  CHECK(value("trainctl_last_checkpoint_step") == 900);
  CHECK(value("trainctl_last_checkpoint_timestamp_seconds") == 1'700'000'000.25);
  CHECK(value("trainctl_warnings_total") == 1);
  sink->close();
  sink->on_end({{"exit_code", 6}, {"restarts", 3}});
  page = parsed(golden::read(file));
  CHECK(value("trainctl_up") == 0);
  CHECK(value("trainctl_exit_code") == 6);
  CHECK(value("trainctl_restarts_total") == 3);
}

TEST_CASE("PrometheusSink: the file is rewritten every few seconds within an epoch") {
  TempFolder folder;
  const auto file = folder / "trainctl.prom";
  const auto sink = make_prometheus_sink(writing_to(file));
  sink->on_tick(100);
  sink->on_event(0, events::Progress{.global_step = 7, .loss = 0.5});
  sink->on_tick(110);
  CHECK(parsed(golden::read(file)).samples.at("trainctl_step_total" + kCommon + "}") == 0);
  sink->on_tick(115);
  CHECK(parsed(golden::read(file)).samples.at("trainctl_step_total" + kCommon + "}") == 7);
  CHECK(parsed(golden::read(file)).samples.at("trainctl_loss" + kCommon + "}") == 0.5);
}

TEST_CASE("PrometheusSink: an unwritable file causes one warning every ten minutes") {
  TempFolder folder;
  const auto sink = make_prometheus_sink(writing_to(folder / "gone/trainctl.prom"));
  int num_reports = 0;
  for (double now = 0; now < 1300; now += 20) {
    sink->on_tick(now);
    if (const auto warning = sink->take_warning()) {
      ++num_reports;
      CHECK_THAT(*warning, Contains("the run continues"));
    }
  }
  CHECK(num_reports == 3);
  std::filesystem::create_directory(folder / "gone");
  sink->on_end({{"exit_code", 0}});
  CHECK_FALSE(sink->take_warning());
  CHECK(parsed(golden::read(folder / "gone/trainctl.prom"))
            .samples.at("trainctl_up" + kCommon + "}") == 0);
}
