#include "spec/checks/checks.hpp"
#include "spec/experiment_yaml.hpp"
#include "spec/options/logger.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

using namespace trainctl;

namespace {

std::string logger_problems(const std::string& loggers) {
  const spec::Loaded loaded = load_valid({"loggers=" + loggers});
  config::Diagnostics diagnostics;
  spec::check_loggers(loaded, diagnostics);
  return diagnostics.render();
}

}  // namespace

TEST_CASE("loggers: an entry is a name or a map with options", "[spec]") {
  const auto loggers =
      load_valid({"loggers=[csv, {type: tensorboard, histograms_every_n_epochs: 0}, tensorboard, "
                  "{type: exec, command: [sh, -c, cat], events: [failed]}]"})
          .experiment.loggers;
  REQUIRE(loggers.size() == 4);
  CHECK(loggers[0].type == "csv");
  CHECK(loggers[1].as<spec::logger::Tensorboard>().histograms_every_n_epochs == 0);
  CHECK(loggers[2].as<spec::logger::Tensorboard>().histograms_every_n_epochs == 1);
  const auto& exec = loggers[3].as<spec::logger::Exec>();
  CHECK(exec.command == std::vector<std::string>{"sh", "-c", "cat"});
  CHECK(exec.events == std::vector{spec::logger::ExecEvent::failed});
}

TEST_CASE("loggers: the error for an invalid option names the key", "[spec]") {
  CHECK_THAT(problems_of({"loggers=[exec]"}), Contains("'command'"));
  CHECK_THAT(problems_of({"loggers=[{type: exec, command: []}]"}), Contains("'command'"));
  CHECK_THAT(
      problems_of({"loggers=[{type: exec, command: [true], events: [later]}]"}),
      Contains("'events' must be one of start, step, validation, epoch, warning, end, failed"));
  CHECK_THAT(problems_of({"loggers=[{type: tensorboard, histograms: 1}]"}),
             Contains("unknown key 'histograms' in logger 'tensorboard'"));
  CHECK_THAT(problems_of({"loggers=[{type: prometheus, every_s: 0}]"}), Contains("'every_s'"));
  CHECK_THAT(problems_of({"loggers=[wandb]"}), Contains("unknown logger 'wandb'"));
}

TEST_CASE("exec logger: a command that does not exist is an error before the run", "[spec]") {
  CHECK_THAT(logger_problems("[{type: exec, command: [no-such-command-7]}]"),
             Contains("'no-such-command-7' is not an executable file in the folders of PATH"));
  CHECK_THAT(logger_problems("[{type: exec, command: [./no/such]}]"),
             Contains("'./no/such' is not an executable file"));
  CHECK_THAT(logger_problems("[{type: exec, command: [/etc/passwd]}]"),
             Contains("'/etc/passwd' is not an executable file"));
  CHECK(logger_problems("[{type: exec, command: [sh]}, {type: exec, command: [/bin/sh]}]").empty());
}

TEST_CASE("prometheus logger: a file that no collector reads is an error before the run",
          "[spec]") {
  const TempFolder folder;
  const auto with = [&](const std::string& name) {
    return "[{type: prometheus, file: " + (folder / name).string() + "}]";
  };
  CHECK(logger_problems(with("a.prom")).empty());
  CHECK(logger_problems("[prometheus]").empty());
  CHECK(
      logger_problems("[{type: prometheus, file: trainctl.prom}]").empty());  // this folder exists
  CHECK_THAT(logger_problems(with("a.txt")), Contains("must end in .prom"));
  CHECK_THAT(logger_problems(with("none/a.prom")), Contains("does not exist"));
}

TEST_CASE("loggers: a file logger that is listed twice is an error", "[spec]") {
  CHECK_THAT(logger_problems("[csv, jsonl, csv]"), Contains("the logger 'csv' is listed twice"));
  CHECK(logger_problems("[console, csv, jsonl, tensorboard, prometheus]").empty());
}
