#include "study/run/loggers.hpp"

#include "base/machine/machine.hpp"
#include "spec/load.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

#include <algorithm>

using namespace trainctl;
using namespace trainctl::study;

namespace {

spec::Loaded with_loggers(const std::string& loggers, const std::string& lr = "0.002") {
  config::Diagnostics diagnostics;
  return spec::load_experiment_text(
      "x.yaml",
      "name: digits\ndataset: {train: synthetic_digits}\nmodel: {type: mlp, hidden: [32]}\n"
      "optimizer: {type: adam, lr: " +
          lr + "}\nloggers: " + loggers + "\n",
      {}, diagnostics);
}

LoggerContext context_for(const fs::path& run_dir, const spec::Loaded& loaded) {
  return {.run_dir = run_dir,
          .loaded = loaded,
          .console = {.results = [](std::string_view) {},
                      .messages = [](std::string_view) {},
                      .results_style = {},
                      .messages_style = {}},
          .version = "1.2.3",
          .host = "node7"};
}

}  // namespace

TEST_CASE("make_loggers: one listener for each logger") {
  TempFolder folder;
  const spec::Loaded loaded = with_loggers("[console, csv, jsonl, tensorboard, prometheus]");
  CHECK(make_loggers(context_for(folder.path(), loaded)).size() == 5);
  CHECK(fs::exists(folder / "trainctl.prom"));
  const spec::Loaded none = with_loggers("[]");
  CHECK(make_loggers(context_for(folder.path(), none)).empty());
}

TEST_CASE("make_loggers: mlflow comes after html, whose page it uploads") {
  TempFolder folder;
  const spec::Loaded loaded =
      with_loggers("[{type: mlflow, tracking_uri: \"http://127.0.0.1:9\", stop_after_s: 0}, html]");
  const Sinks sinks = make_loggers(context_for(folder.path(), loaded));
  REQUIRE(sinks.size() == 2);
  sinks.back()->on_end({{"exit_code", 0}});
  sinks.back()->finish();
  CHECK_THAT(sinks.back()->take_warning().value_or(""), Contains("mlflow"));
}

TEST_CASE("command logger: the start event contains the config") {
  TempFolder folder;
  const auto got = folder / "got";
  const spec::Loaded loaded = with_loggers("[{type: exec, command: [sh, -c, \"cat > '" +
                                           got.string() + "'\"], events: [start, end]}]");
  const Sinks sinks = make_loggers(context_for(folder.path(), loaded));
  REQUIRE(sinks.size() == 1);
  sinks[0]->close();
  sinks[0]->on_end({{"exit_code", 0}});
  sinks[0]->finish();
  const auto lines = golden::lines_of(golden::read(got));
  REQUIRE(lines.size() == 2);
  const Json start = Json::parse(lines[0]);
  CHECK(start["schema"] == "trainctl.events/2");
  CHECK(start["name"] == "digits");
  CHECK(start["config"]["optimizer"]["lr"] == 0.002);
  CHECK(fs::exists(folder / "logs/exec_sh.log"));
}

TEST_CASE("command logger: commands of the same program have separate logs") {
  TempFolder folder;
  const spec::Loaded loaded = with_loggers(
      "[{type: exec, command: [sh, -c, \"cat > /dev/null\"]}, console, {type: exec, command: "
      "[/bin/sh, -c, \"cat > /dev/null\"]}, {type: exec, command: [cat]}]");
  for (const auto& sink : make_loggers(context_for(folder.path(), loaded))) {
    sink->close();
    sink->on_end({{"exit_code", 0}});
    sink->finish();
  }
  for (const char* log : {"exec_sh.log", "exec_sh_2.log", "exec_cat.log"})
    CHECK(fs::exists(folder / "logs" / log));
}

TEST_CASE("TensorBoard: runs are compared by the options of their stages") {
  const auto params = hparams_of(with_loggers("[]"));
  const auto value = [&](const std::string& name) {
    const auto found = std::ranges::find(
        params.values, name, &std::pair<std::string, report::tensorboard::HParam>::first);
    REQUIRE(found != params.values.end());
    return found->second;
  };
  CHECK(std::get<double>(value("optimizer.lr")) == 0.002);
  CHECK(std::get<std::string>(value("optimizer.type")) == "adam");
  CHECK(std::get<std::string>(value("model.hidden")) == "[32]");
  CHECK(std::get<double>(value("loader.batch_size")) == 64);
}

TEST_CASE("TensorBoard: only runs with the same options share a table row") {
  const auto group = [](const std::string& loggers, const std::string& lr) {
    return hparams_of(with_loggers(loggers, lr)).group;
  };
  CHECK_FALSE(group("[]", "0.002").empty());
  CHECK(group("[]", "0.002") == group("[csv]", "0.002"));
  CHECK(group("[]", "0.002") != group("[]", "0.003"));
}
